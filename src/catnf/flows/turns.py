"""Which nodes of a graph are decided together, and which of them first."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_MODULUS = (1 << 31) - 1


def node_ranks(adjacency: Tensor) -> Tensor:
    """A number for every node, `[batch, nodes]`: large with many neighbours, or with many of those.

    Further ties are broken by a hash of the surroundings. All is done in integers, whose sums do not depend
    on the order of nodes: relabelled graphs give relabelled numbers, and nodes that no relabelling could tell
    apart have the same one.

    Args:
        adjacency: `[batch, nodes, nodes]`, true where there is an edge.
    """

    def over_neighbours(values: Tensor) -> Tensor:
        return torch.where(adjacency, values.unsqueeze(1), 0).sum(-1)

    degree = adjacency.sum(-1)
    code = degree * 7919 + 13
    for _ in range(4):
        mixed = (code * 48271 + 11) % _MODULUS
        mixed = mixed * (mixed % 65521 + 1) % _MODULUS
        code = (code * 31 + over_neighbours(mixed)) % _MODULUS
    # Beyond 2^16 neighbours' neighbours the order would be another one, and still the same for all labels.
    return (degree * (1 << 16) + over_neighbours(degree).clamp(max=(1 << 16) - 1)) * (1 << 31) + code


class NodeOrder(nn.Module):
    """Which of two nodes has the higher rank."""

    compile_unit = True

    def forward(self, adjacency: Tensor, ties: Tensor | None = None) -> Tensor:
        """True where the second node has the higher rank: `[batch, nodes, nodes]`.

        Args:
            adjacency: `[batch, nodes, nodes]`, true where there is an edge.
            ties: `[batch, nodes]`, larger for the higher of two nodes of equal rank; by default those that
                are given first.
        """
        rank = node_ranks(adjacency)
        if ties is None:
            ties = -torch.arange(rank.shape[1], device=rank.device).expand_as(rank)
        return _larger(rank) | (_equal(rank) & _larger(ties))


class ReadyNodes(nn.Module):
    """Which nodes can be decided now, given those that are.

    A node waits for every undecided node that comes before it and is near: at most `reach` edges away, all
    nodes between them being undecided ones that could be left without a category. So nodes that are decided
    together are not adjacent and do not take a choice from each other's undecided neighbours; the farther
    they reach, the less they would have to agree upon.

    By default nodes come in the order of their rank. Where it is known what others have become, those come
    first that have most different categories around them; a node with a single choice left waits for nobody.

    Args:
        free: nodes with at most so many different categories around them always find one.
        reach: how many edges away a node looks for those to wait for.
    """

    compile_unit = True

    def __init__(self, free: int, reach: int) -> None:
        super().__init__()
        self.free, self.reach = free, reach

    def forward(self, adjacency: Tensor, order: Tensor, todo: Tensor, around: Tensor | None = None) -> Tensor:
        """True where a node is ready: `[batch, nodes]`.

        Args:
            adjacency: `[batch, nodes, nodes]`, true where there is an edge.
            order: `[batch, nodes, nodes]`, of `NodeOrder`.
            todo: `[batch, nodes]`, true where a node is not decided yet.
            around: `[batch, nodes, categories]`, true where a decided neighbour has a category; `None` to go
                by rank alone.
        """
        open_edges = adjacency & todo.unsqueeze(1)
        if around is None:
            first, most_around, may_wait = order, adjacency.sum(-1), todo
        else:
            seen = around.sum(-1)
            first, most_around = _larger(seen) | (_equal(seen) & order), seen + open_edges.sum(-1)
            may_wait = todo & (seen < self.free)
        near, path = adjacency, adjacency.float()
        between = (todo & (most_around > self.free)).unsqueeze(1).float()
        for _ in range(self.reach - 1):
            path = ((path * between) @ adjacency.float() > 0).float()
            near = near | (path > 0)
        before = near & first & todo.unsqueeze(1)
        return todo & ~(may_wait & before.any(-1))


class Surroundings(nn.Module):
    """Which categories the decided neighbours of nodes have.

    Args:
        categories: their number.
    """

    compile_unit = True

    def __init__(self, categories: int) -> None:
        super().__init__()
        self.categories = categories

    def forward(self, adjacency: Tensor, categories: Tensor, decided: Tensor) -> Tensor:
        """True where a node has such a neighbour: `[batch, nodes, categories]`.

        Args:
            adjacency: `[batch, nodes, nodes]`, true where there is an edge.
            categories: `[batch, nodes]`, of decided nodes, and anything elsewhere.
            decided: `[batch, nodes]`.
        """
        every = torch.arange(self.categories, device=categories.device)
        has = (categories.unsqueeze(-1) == every) & decided.unsqueeze(-1)
        return adjacency.float() @ has.float() > 0


def _larger(values: Tensor) -> Tensor:
    """Where the second of `values: [batch, nodes]` is larger: `[batch, nodes, nodes]`."""
    return values.unsqueeze(1) > values.unsqueeze(2)


def _equal(values: Tensor) -> Tensor:
    """Where two of `values: [batch, nodes]` are equal: `[batch, nodes, nodes]`."""
    return values.unsqueeze(1) == values.unsqueeze(2)
