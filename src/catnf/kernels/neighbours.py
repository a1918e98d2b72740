"""Averages over the neighbours of every node of a graph."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from catnf.kernels.attention import FUSED_ELEMENTS

SLOPE = 0.2
"""Of the leaky rectifier on attention scores, as in the paper's networks."""


def average_neighbours(values: Tensor, scores: Tensor, adjacency: Tensor, heads: int) -> Tensor:
    """A weighted average over a node's neighbours and itself, then a Gaussian error linear unit.

    The score of a neighbour is a leaky rectified sum of a number of either node; the softmax over the scores
    of the neighbours and of the node itself gives the weights.

    Args:
        values: what a node shows its neighbours and what it shows itself, side by side,
            `[batch, nodes, 2 * heads * width]`.
        scores: a number for every head as the one who looks, as a neighbour, and to itself,
            `[batch, nodes, 3 * heads]`.
        adjacency: `[batch, nodes, nodes]`, true where there is an edge.
        heads: attention heads.

    Returns:
        `[batch, nodes, heads * width]`.
    """
    if values.is_cuda and values.shape[1] <= FUSED_ELEMENTS and values.shape[2] >= 2 * heads * 16:
        from catnf.kernels.neighbours_triton import fused_average

        out: Tensor = fused_average(values, scores, adjacency, heads)
        return out
    return average_neighbours_plain(values, scores, adjacency, heads)


def average_neighbours_plain(values: Tensor, scores: Tensor, adjacency: Tensor, heads: int) -> Tensor:
    """The same in plain torch, for any device and any number of nodes."""
    batch, nodes, _ = values.shape
    neighbour, own = (part.view(batch, nodes, heads, -1).transpose(1, 2) for part in values.chunk(2, dim=-1))
    looking, seen, self_score = scores.view(batch, nodes, 3, heads).unbind(2)
    pairs = F.leaky_relu(looking.unsqueeze(2) + seen.unsqueeze(1), SLOPE).permute(0, 3, 1, 2)
    pairs = _at_least_float(pairs).masked_fill(~adjacency.unsqueeze(1), -torch.inf)
    alone = _at_least_float(F.leaky_relu(looking + self_score, SLOPE).transpose(1, 2).unsqueeze(-1))
    # A softmax over the neighbours and the node itself, without building one matrix of both.
    highest = torch.maximum(pairs.amax(-1, keepdim=True), alone)
    weights, weight = (pairs - highest).exp(), (alone - highest).exp()
    total = weights.sum(-1, keepdim=True) + weight
    mixed = (weights / total).to(values.dtype) @ neighbour + (weight / total).to(values.dtype) * own
    return F.gelu(mixed.transpose(1, 2).flatten(2))


def _at_least_float(values: Tensor) -> Tensor:
    return values if values.dtype == torch.float64 else values.float()
