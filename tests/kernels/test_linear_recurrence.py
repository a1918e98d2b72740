"""Gated memories: against their definition, their gradients, and the fused kernel against the plain one."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from catnf.kernels.linear_recurrence import remember, remember_plain

Seeded = Callable[[int], torch.Generator]


def by_hand(openness: Tensor, offered: Tensor) -> Tensor:
    """One element after another, by autograd."""
    state, states = torch.zeros_like(offered[:, 0]), []
    for gate, offer in zip(openness.sigmoid().unbind(1), offered.unbind(1), strict=True):
        state = (1.0 - gate) * state + gate * offer
        states.append(state)
    return torch.stack(states, dim=1)


def with_gradients(work: Callable[[Tensor, Tensor], Tensor], *inputs: Tensor) -> tuple[Tensor, ...]:
    """What comes out, and gradients of a sum of it with fixed random weights."""
    leaves = [values.detach().requires_grad_() for values in inputs]
    out = work(*leaves)
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(9)).to(out)
    return out.detach(), *torch.autograd.grad((out * weights).sum(), leaves)


@given(elements=st.integers(1, 9), seed=st.integers(0, 1000))
def test_the_definition(elements: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    inputs = 2.0 * torch.randn(2, 3, elements, 5, generator=generator, dtype=torch.float64)
    for ours, theirs in zip(with_gradients(remember, *inputs), with_gradients(by_hand, *inputs), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_closed_gate_keeps_and_an_open_one_renews() -> None:
    openness = torch.tensor([[[40.0], [-40.0], [-40.0], [40.0]]])
    offered = torch.tensor([[[3.0], [5.0], [7.0], [9.0]]])
    assert remember(openness, offered).flatten().tolist() == [3.0, 3.0, 3.0, 9.0]


def test_sums_are_not_rounded_on_the_way() -> None:
    """Gates so narrow that a sum in bfloat16 would never move."""
    openness = torch.full((1, 2000, 1), -7.0, dtype=torch.bfloat16)
    out = remember(openness, torch.ones_like(openness))
    assert out.dtype == torch.bfloat16
    kept = 1.0 - 1.0 / (1.0 + math.exp(7.0))
    assert float(out[0, -1, 0]) == pytest.approx(1.0 - kept**2000, rel=1e-2)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("elements", "width"), [(1, 8), (16, 64), (17, 96), (288, 512)])
def test_fused(elements: int, width: int, dtype: torch.dtype, seeded: Seeded) -> None:
    from catnf.kernels.linear_recurrence_triton import fused_remember

    inputs = 2.0 * torch.randn(2, 3, elements, width, generator=seeded(1)).to(dtype)
    expected = with_gradients(remember_plain, *inputs.double())
    tolerance = 1e-4 if dtype == torch.float32 else 3e-2
    for ours, theirs in zip(with_gradients(fused_remember, *inputs.cuda()), expected, strict=True):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours.cpu().double(), theirs, rtol=tolerance, atol=tolerance)
