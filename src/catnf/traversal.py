"""Graphs as they grow: node by node along a path that turns back where it ends.

A node is told by its steps. The first says where it is attached: 0 begins a new piece of the graph, and c is
c - 1 edges up the path from the node before it. The others close rings, nearest first: 0 closes none, and c
is an edge to the node c + 1 edges up the path. That is all there is: where a path turned back, nodes have
edges to nodes above them alone.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

SIGHT = 16
"""How many nodes up the path are described."""

FEATURES = 6 * SIGHT
"""Numbers that describe a path."""


class Traversal(NamedTuple):
    """An order of nodes, and their steps in it.

    Attributes:
        order: the node of every place, `[batch, nodes]`; padding comes last.
        steps: `[batch, nodes, slots]`, of the nodes in this order; 0 at padding.
        log_chance: of this order among all that could have been drawn, `[batch]`.
        told: whether the steps tell the whole graph, `[batch]`; no where a node would need more of them.
    """

    order: Tensor
    steps: Tensor
    log_chance: Tensor
    told: Tensor


Path = tuple[Tensor, Tensor, Tensor, Tensor]
"""Where a graph grows: from its last node up to the first of its piece.

The depth of the last node, `[batch]`, -1 where there is none yet; and of the node at every depth, `[batch,
deepest]`: its place in the order of nodes, how many edges it has, and how many rings pass from it to the node
above. A plain tuple, because some versions of torch compile named ones wrongly.
"""


def begin_path(batch: int, deepest: int, device: torch.device) -> Path:
    """Before the first node."""
    nothing = torch.zeros(batch, deepest, dtype=torch.int64, device=device)
    return nothing[:, 0] - 1, nothing, nothing, nothing


class Attach(nn.Module):
    """The path to a new node, and the place of the node that it is attached to."""

    compile_unit = True

    def forward(self, path: Path, step: Tensor, place: Tensor) -> tuple[Path, Tensor]:
        """`step: [batch]` and `place: []` of the new node; the parent's place is `[batch]`, -1 for none."""
        last, places, degrees, rings = path
        depths = torch.arange(places.shape[1], device=step.device)
        first = (step == 0).unsqueeze(1)
        above = (last - step + 1).clamp(min=0).unsqueeze(1)
        depth = torch.where(first, 0, above + 1)
        here = depths == depth
        to_parent = (depths == above) & ~first
        parent = torch.where(to_parent, places, 0).sum(1) - first.squeeze(1).long()
        places = torch.where(here, place, places)
        degrees = torch.where(here, (~first).long(), degrees + to_parent)
        return (depth.squeeze(1), places, degrees, torch.where(here, 0, rings)), parent


class CloseRing(nn.Module):
    """The path after a ring was closed, and the place of the node that the new edge leads to."""

    compile_unit = True

    def forward(self, path: Path, step: Tensor) -> tuple[Path, Tensor]:
        """`step: [batch]`, 0 for no ring; the place of its other end is `[batch]`, -1 for none."""
        last, places, degrees, rings = path
        depths = torch.arange(places.shape[1], device=step.device)
        some, depth = (step > 0).unsqueeze(1), last.unsqueeze(1)
        above = depth - step.unsqueeze(1) - 1
        other = (depths == above) & some
        place = torch.where(other, places, 0).sum(1) - (~other).all(1).long()
        degrees = degrees + other + ((depths == depth) & some & (above >= 0))
        rings = rings + ((depths > above) & (depths <= depth) & some)
        return (last, places, degrees, rings), place


class DescribePath(nn.Module):
    """Numbers that tell what is up the path, and which steps it allows.

    Args:
        categories: of steps.
    """

    compile_unit = True

    def __init__(self, categories: int) -> None:
        super().__init__()
        self.categories = categories

    def forward(self, path: Path, before: Tensor | None) -> tuple[Tensor, Tensor]:
        """Features `[batch, FEATURES]` and allowed steps `[batch, categories]`.

        Args:
            path: where the graph grows.
            before: `[batch]`, the step before one that closes a ring, which must lead farther; after 0 none
                may follow, and -1 is before the first. `None` to attach a node.
        """
        last, _, degrees, rings = path
        depth = last.unsqueeze(1)
        up = depth - torch.arange(SIGHT, device=depth.device)
        there, index = up >= 0, up.clamp(min=0)
        degrees = torch.where(there, degrees.gather(1, index), -1)
        rings = torch.where(there, rings.gather(1, index), 0)
        seen = [degrees == 1, degrees == 2, degrees == 3, degrees > 3, rings > 0, rings > 1]
        steps = torch.arange(self.categories, device=depth.device)
        if before is None:
            allowed = steps <= depth + 1
        else:
            nearer = before.unsqueeze(1)
            allowed = (steps == 0) | ((steps < depth) & (steps > nearer) & (nearer != 0))
        return torch.cat(seen, dim=1).float(), allowed


def traverse(adjacency: Tensor, present: Tensor, slots: int, generator: torch.Generator | None) -> Traversal:
    """Walk from a random node to random neighbours, turning back where none is left.

    Args:
        adjacency: `[batch, nodes, nodes]`, true where there is an edge.
        present: `[batch, nodes]`, true where there is a node.
        slots: steps of a node; those of a node with as many edges always suffice.
        generator: of randomness.
    """
    batch, nodes = present.shape
    chances = torch.rand(batch, nodes, nodes, device=present.device, generator=generator)
    every = torch.arange(nodes, device=present.device)
    visited = torch.zeros_like(present)
    depth = torch.zeros_like(present, dtype=torch.int64)
    last = torch.zeros_like(depth[:, :1])  # depth of the node before
    order, steps, log_chance = [], [], torch.zeros(batch, device=present.device)
    told = present.any(1)
    for place in range(nodes):
        open_edges = adjacency & (present & ~visited).unsqueeze(1)
        waiting = visited & open_edges.any(-1)
        parent = torch.where(waiting, depth + 1, 0).argmax(1, keepdim=True)
        attached = waiting.any(1, keepdim=True)
        from_parent = open_edges.gather(1, parent.unsqueeze(-1).expand(-1, -1, nodes)).squeeze(1)
        options = torch.where(attached, from_parent, present & ~visited)
        node = torch.where(options, chances[:, place] + 1.0, torch.where(visited, -1.0, 0.0))
        node = node.argmax(1, keepdim=True)
        real = options.any(1, keepdim=True)
        log_chance = log_chance - options.sum(1).clamp(min=1).log()
        above = depth.gather(1, parent)
        own_depth = torch.where(attached, above + 1, 0)
        back = own_depth - depth
        neighbours = adjacency.gather(1, node.unsqueeze(-1).expand(-1, -1, nodes)).squeeze(1)
        closes = neighbours & visited & (every != parent)
        told = told & (closes.sum(1) < slots)
        nearest = F.pad(torch.where(closes, back, nodes + 1).sort(1).values, (0, slots), value=nodes + 1)
        nearest = nearest[:, : slots - 1]  # of a few nodes there may be fewer
        rings = torch.where(nearest <= nodes, nearest - 1, 0)
        first = torch.where(attached, last - above + 1, 0)
        steps.append(torch.where(real, torch.cat([first, rings], dim=1), 0))
        order.append(node)
        here = every == node
        visited, depth = visited | here, torch.where(here, own_depth, depth)
        last = own_depth
    return Traversal(torch.cat(order, dim=1), torch.stack(steps, dim=1), log_chance, told)
