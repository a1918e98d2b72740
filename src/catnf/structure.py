"""Numbers that tell where in a graph a node or an edge is, the same for any order of nodes."""

from __future__ import annotations

import torch
from torch import Tensor

LENGTHS = tuple(range(2, 9))
"""Of random walks: rings of up to 8 nodes show."""


def walks(adjacency: Tensor) -> Tensor:
    """Where random walks end: `[batch, LENGTHS, nodes, nodes]`, a row for where they begin.

    Args:
        adjacency: `[batch, nodes, nodes]`, true where there is an edge; a node without any ends its walks.
    """
    step = adjacency.float()
    step = step / step.sum(-1, keepdim=True).clamp(min=1.0)
    now, ends = step, []
    for _ in LENGTHS:
        now = now @ step
        ends.append(now)
    return torch.stack(ends, dim=1)


def node_structure(ends: Tensor) -> Tensor:
    """How likely walks return to every node, `[batch, nodes, LENGTHS]`, from the `ends` of `walks`."""
    return ends.diagonal(dim1=-2, dim2=-1).mT


def edge_structure(ends: Tensor, incidence: Tensor) -> Tensor:
    """Of every edge: `[batch, edges, 2 * LENGTHS]`, whichever of its ends comes first.

    How likely walks from one end lead to the other, on any way, and how likely they return.

    Args:
        ends: `[batch, LENGTHS, nodes, nodes]`, of `walks`.
        incidence: `[batch, 2, edges, nodes]`, 1 where a node is the first or the second end of an edge.
    """
    first, second = incidence.unbind(1)
    across = ((first.unsqueeze(1) @ (ends + ends.mT)) * second.unsqueeze(1)).sum(-1).mT
    return torch.cat([across, incidence.sum(1) @ node_structure(ends)], dim=-1)
