"""The one order of unordered pairs of nodes: (0, 1), (0, 2), ..., (1, 2), ..."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F


class PairLayout(NamedTuple):
    """Where pairs of nodes are.

    Attributes:
        first: the smaller node of every pair, `[pairs]`.
        second: the larger one, `[pairs]`.
        matrix: the pair of any two nodes, `[nodes, nodes]`; on the diagonal some pair, to be hidden.
    """

    first: Tensor
    second: Tensor
    matrix: Tensor


def pair_count(nodes: int) -> int:
    """How many pairs there are.

    >>> pair_count(4)
    6
    """
    return nodes * (nodes - 1) // 2


def node_count(pairs: int) -> int:
    """How many nodes have this many pairs.

    >>> node_count(6)
    4
    """
    return (1 + math.isqrt(1 + 8 * pairs)) // 2


def pair_index(first: Tensor, second: Tensor, nodes: int) -> Tensor:
    """The place of pairs with `first < second`, in graphs padded to `nodes`.

    >>> pair_index(torch.tensor([0, 1]), torch.tensor([1, 2]), 4)
    tensor([0, 3])
    """
    return first * (2 * nodes - first - 1) // 2 + second - first - 1


def pair_layout(nodes: int, device: torch.device | str = "cpu") -> PairLayout:
    """The layout of graphs padded to `nodes`, which is at least 2."""
    first, second = torch.triu_indices(nodes, nodes, offset=1, device=device)
    index = torch.arange(nodes, device=device)
    low, high = torch.minimum(index, index.view(-1, 1)), torch.maximum(index, index.view(-1, 1))
    matrix = pair_index(low, high, nodes).clamp(0, pair_count(nodes) - 1)
    return PairLayout(first, second, matrix)


def pad_graphs(x: Tensor, nodes: int, wider: int) -> Tensor:
    """Graphs `x: [batch, nodes + pairs]`, nodes before pairs, padded with zeros to `wider` nodes.

    >>> pad_graphs(torch.tensor([[5, 6, 1]]), 2, 3)
    tensor([[5, 6, 0, 1, 0, 0]])
    """
    first, second, _ = pair_layout(nodes, x.device)
    out = x.new_zeros(len(x), wider + pair_count(wider))
    out[:, :nodes] = x[:, :nodes]
    out[:, wider + pair_index(first, second, wider)] = x[:, nodes:]
    return out


def to_matrix(values: Tensor, layout: PairLayout, spare: int = 0) -> Tensor:
    """Values of pairs `[batch, pairs, width]` as a symmetric matrix `[batch, nodes, nodes + spare, width]`.

    The diagonal and spare columns are zero.
    """
    out: Tensor = _ToMatrix.apply(values, *layout, spare)  # type: ignore[no-untyped-call]
    return out


def sum_of_ends(values: Tensor, layout: PairLayout) -> Tensor:
    """The sum of `values: [batch, nodes, width]` over the two ends of every pair: `[batch, pairs, width]`."""
    out: Tensor = _SumOfEnds.apply(values, *layout)  # type: ignore[no-untyped-call]
    return out


def _spread(values: Tensor, matrix: Tensor, spare: int = 0) -> Tensor:
    off_diagonal = ~torch.eye(len(matrix), dtype=torch.bool, device=values.device)
    shown = F.pad(off_diagonal, (0, spare)).unsqueeze(-1)
    return values[:, F.pad(matrix, (0, spare))] * shown.to(values.dtype)


# Autograd would add the gradients of gathered rows one by one; here they are gathered as well.


class _ToMatrix(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, values: Tensor, first: Tensor, second: Tensor, matrix: Tensor, spare: int
    ) -> Tensor:
        ctx.save_for_backward(first, second)
        return _spread(values, matrix, spare)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None, None]:
        first, second = ctx.saved_tensors
        return gradient[:, first, second] + gradient[:, second, first], None, None, None, None


class _SumOfEnds(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, first: Tensor, second: Tensor, matrix: Tensor) -> Tensor:
        ctx.save_for_backward(matrix)
        return values[:, first] + values[:, second]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        (matrix,) = ctx.saved_tensors
        return _spread(gradient, matrix).sum(2), None, None, None
