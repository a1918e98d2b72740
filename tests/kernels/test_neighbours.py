"""Averages over neighbours: the plain version against the definition, the fused one against the plain one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from catnf.kernels.attention import FUSED_ELEMENTS
from catnf.kernels.neighbours import SLOPE, average_neighbours, average_neighbours_plain

Seeded = Callable[[int], torch.Generator]


def graphs(count: int, nodes: int, generator: torch.Generator) -> Tensor:
    """Adjacencies `[count, nodes, nodes]`; the last graph has no edges."""
    upper = torch.triu(torch.rand(count, nodes, nodes, generator=generator) < 0.4, 1)
    upper[-1] = False
    return upper | upper.mT


def by_hand(values: Tensor, scores: Tensor, adjacency: Tensor, heads: int) -> Tensor:
    """The average for one graph, node by node and head by head."""
    nodes, width = len(values), values.shape[-1] // (2 * heads)
    shown, own = values.view(nodes, 2, heads, width).unbind(1)
    looking, seen, alone = scores.view(nodes, 3, heads).unbind(1)
    out = torch.zeros(nodes, heads, width)
    for node in range(nodes):
        around = adjacency[node].nonzero().flatten()
        for head in range(heads):
            mine = torch.cat([seen[around, head], alone[node, head].view(1)]) + looking[node, head]
            what = torch.cat([shown[around, head], own[node, head].view(1, width)])
            out[node, head] = torch.softmax(F.leaky_relu(mine, SLOPE), dim=0) @ what
    return F.gelu(out.view(nodes, heads * width))


@given(nodes=st.integers(1, 6), heads=st.sampled_from([1, 2, 4]), seed=st.integers(0, 1000))
def test_average_is_the_definition(nodes: int, heads: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(3, nodes, 2 * heads * 3, generator=generator)
    scores = 2.0 * torch.randn(3, nodes, 3 * heads, generator=generator)
    adjacency = graphs(3, nodes, generator)
    expected = torch.stack([by_hand(*graph, heads) for graph in zip(values, scores, adjacency, strict=True)])
    torch.testing.assert_close(average_neighbours_plain(values, scores, adjacency, heads), expected)
    torch.testing.assert_close(average_neighbours(values, scores, adjacency, heads), expected)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("nodes", [1, 16, 20, 50, FUSED_ELEMENTS])
@pytest.mark.parametrize(("heads", "width"), [(4, 16), (4, 96), (2, 24)])
def test_fused_average(heads: int, width: int, nodes: int, dtype: torch.dtype, seeded: Seeded) -> None:
    from catnf.kernels.neighbours_triton import fused_average

    values = torch.randn(5, nodes, 2 * heads * width, generator=seeded(1)).cuda().to(dtype)
    # Rows of a wider tensor, as a padded linear layer gives them.
    scores = 2.0 * torch.randn(5, nodes, 3 * heads + 4, generator=seeded(2)).cuda().to(dtype)
    scores = scores[..., : 3 * heads]
    adjacency = graphs(5, nodes, seeded(3)).cuda()
    grad = torch.randn(5, nodes, heads * width, generator=seeded(4)).cuda().to(dtype)
    # The reference sees the same rounded numbers, but computes with them exactly.
    exact = [values.double().requires_grad_(), scores.double().requires_grad_()]
    expected = average_neighbours_plain(exact[0], exact[1], adjacency, heads)
    expected_gradients = torch.autograd.grad(expected, exact, grad.double())
    given_to = [values.requires_grad_(), scores.detach().requires_grad_()]
    out = fused_average(given_to[0], given_to[1], adjacency, heads)
    gradients = torch.autograd.grad(out, given_to, grad)
    tolerance = 1e-4 if dtype == torch.float32 else 5e-2
    for ours, theirs in zip((out, *gradients), (expected, *expected_gradients), strict=True):
        assert ours.dtype == dtype
        near = tolerance * theirs.abs().max().item()
        torch.testing.assert_close(ours.double(), theirs, rtol=tolerance, atol=near)


@pytest.mark.gpu
@pytest.mark.parametrize("nodes", [23, FUSED_ELEMENTS + 1])
def test_average_chooses_a_kernel_that_fits(nodes: int, seeded: Seeded) -> None:
    for width in (8, 16, 40):
        values = torch.randn(3, nodes, 4 * width, generator=seeded(1))
        scores, adjacency = torch.randn(3, nodes, 6, generator=seeded(2)), graphs(3, nodes, seeded(3))
        expected = average_neighbours_plain(values, scores, adjacency, 2)
        out = average_neighbours(values.cuda(), scores.cuda(), adjacency.cuda(), 2)
        torch.testing.assert_close(out.cpu(), expected, rtol=1e-4, atol=1e-4)
