"""Fused kernels against their plain twins, and the twins against first principles."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from catnf.flows import Mixture, mixture_logit
from catnf.flows.linear import multiply
from catnf.flows.mixture import solve_plain
from catnf.kernels.attention import FUSED_ELEMENTS, attention, attention_plain

Seeded = Callable[[int], torch.Generator]


def by_hand(qkv: Tensor, heads: int) -> Tensor:
    """Attention of one example `[elements, 3 * hidden]`, head by head."""
    q, k, v = (part.chunk(heads, dim=-1) for part in qkv.chunk(3, dim=-1))
    outs = []
    for head in range(heads):
        scores = q[head] @ k[head].T / math.sqrt(q[head].shape[-1])
        outs.append(torch.softmax(scores, dim=-1) @ v[head])
    return torch.cat(outs, dim=-1)


@given(elements=st.integers(1, 6), heads=st.sampled_from([1, 2, 4]), seed=st.integers(0, 1000))
def test_attention_is_the_definition(elements: int, heads: int, seed: int) -> None:
    qkv = torch.randn(2, elements, 24, generator=torch.Generator().manual_seed(seed))
    expected = torch.stack([by_hand(example, heads) for example in qkv])
    torch.testing.assert_close(attention_plain(qkv, heads), expected)
    torch.testing.assert_close(attention(qkv, heads), expected)


@given(seed=st.integers(0, 1000))
def test_masked_attention_is_attention_over_what_is_real(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    qkv = 3.0 * torch.randn(3, 6, 24, generator=generator)
    mask = torch.rand(3, 6, generator=generator) < 0.5
    mask[:, seed % 6] = True
    out = attention_plain(qkv, 2, mask)
    for index in range(3):
        real = mask[index]
        torch.testing.assert_close(out[index][real], by_hand(qkv[index][real], 2), rtol=1e-4, atol=1e-5)


def test_padding_gets_no_gradient(seeded: Seeded) -> None:
    qkv = torch.randn(1, 5, 24, generator=seeded(1), requires_grad=True)
    mask = torch.tensor([[True, True, True, False, False]])
    (gradient,) = torch.autograd.grad(attention_plain(qkv, 2, mask)[mask].square().sum(), qkv)
    assert (gradient[:, :3] != 0).any()
    assert (gradient[:, 3:] == 0).all()


def test_examples_of_padding_alone_give_numbers(seeded: Seeded) -> None:
    qkv = torch.randn(2, 5, 24, generator=seeded(1))
    assert torch.isfinite(attention_plain(qkv, 2, torch.zeros(2, 5, dtype=torch.bool))).all()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("elements", [1, 16, 23, 50, FUSED_ELEMENTS])
@pytest.mark.parametrize(("heads", "width"), [(4, 16), (2, 64)])
def test_fused_attention(
    heads: int, width: int, elements: int, masked: bool, dtype: torch.dtype, seeded: Seeded
) -> None:
    from catnf.kernels.attention_triton import fused_attention

    hidden = heads * width
    qkv = torch.randn(5, elements, 3 * hidden, generator=seeded(1)).cuda().to(dtype)
    mask = None
    if masked:
        mask = torch.rand(5, elements, generator=seeded(2)) < 0.6
        mask[:4, 0] = True
        mask[4] = False  # an example of padding alone
        mask = mask.cuda()
    grad = torch.randn(5, elements, hidden, generator=seeded(3)).cuda()
    # The reference sees the same rounded numbers, but computes with them exactly.
    exact = qkv.double().requires_grad_()
    expected = attention_plain(exact, heads, mask)
    (expected_gradient,) = torch.autograd.grad(expected, exact, grad.double())
    qkv.requires_grad_()
    out = fused_attention(qkv, mask, heads)
    (gradient,) = torch.autograd.grad(out, qkv, grad.to(dtype))
    assert out.dtype == gradient.dtype == dtype
    tolerance = 1e-4 if dtype == torch.float32 else 5e-2
    # Nothing is right for an example of padding alone, but it must be numbers.
    torch.testing.assert_close(out[:4].double(), expected[:4], rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(gradient[:4].double(), expected_gradient[:4], rtol=tolerance, atol=tolerance)
    assert torch.isfinite(out).all()
    assert torch.isfinite(gradient).all()


@pytest.mark.gpu
@pytest.mark.parametrize("elements", [23, FUSED_ELEMENTS, FUSED_ELEMENTS + 1])
def test_attention_chooses_a_kernel_that_fits(elements: int, seeded: Seeded) -> None:
    for hidden, heads in ((64, 4), (48, 2), (16, 4)):  # heads of 16, of no power of two, too narrow
        qkv = torch.randn(2, elements, 3 * hidden, generator=seeded(1))
        expected = attention_plain(qkv, heads)
        torch.testing.assert_close(attention(qkv.cuda(), heads).cpu(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.gpu
def test_fused_attention_of_a_view(seeded: Seeded) -> None:
    whole = torch.randn(8, 16, 2 * 192, generator=seeded(1)).cuda()
    part = whole[::2, :, :192]
    torch.testing.assert_close(attention(part, 4), attention_plain(part, 4), rtol=1e-4, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("scales", [(-1.0, 1.0), (-6.0, 3.0)])
@pytest.mark.parametrize("mixtures", [1, 3, 8, 33])
@pytest.mark.parametrize("shape", [(1,), (7, 5, 3), (4099,)])
def test_fused_root_search(
    shape: tuple[int, ...], mixtures: int, scales: tuple[float, float], seeded: Seeded
) -> None:
    from catnf.kernels.mixture_triton import solve

    def uniform(low: float, high: float, *more: int) -> Tensor:
        return (low + (high - low) * torch.rand(*shape, *more, generator=generator)).cuda()

    generator = seeded(mixtures)
    log_weights = torch.log_softmax(uniform(-3.0, 3.0, mixtures), dim=-1)
    mixture = Mixture(log_weights, uniform(-3.0, 3.0, mixtures), uniform(*scales, mixtures))
    y = uniform(-15.0, 15.0)
    ours, theirs = solve(y, mixture), solve_plain(y, mixture)
    assert ours.value.shape == ours.converged.shape == shape
    assert ours.converged.dtype == torch.bool
    assert ours.converged.all()
    assert theirs.converged.all()
    # On a plateau many x have almost the same y, so that roots agree in either of the two.
    near = (ours.value - theirs.value).abs() <= 1e-4 * (1.0 + theirs.value.abs())
    same = (mixture_logit(ours.value, mixture)[0] - y).abs() <= 1e-4 * (1.0 + y.abs())
    assert (near | same).all()


@pytest.mark.gpu
def test_fused_root_search_reports_failures(seeded: Seeded) -> None:
    from catnf.kernels.mixture_triton import solve

    mixture = Mixture(*(torch.rand(100, 4, generator=seeded(s)).cuda() for s in (1, 2, 3)))
    mixture = mixture._replace(logits=torch.log_softmax(mixture.logits, dim=-1))
    y = torch.linspace(-9.0, 9.0, 100).cuda()
    assert not solve(y, mixture, steps=1).converged.all()
    y[3] = math.nan
    converged = solve(y, mixture).converged
    assert not converged[3]
    assert converged.sum() == 99


@pytest.mark.gpu
@pytest.mark.parametrize("channels", [2, 8, 9])
def test_small_products(channels: int, seeded: Seeded) -> None:
    values = torch.randn(5, 7, channels, generator=seeded(1))
    matrix = torch.randn(channels, channels, generator=seeded(2))
    torch.testing.assert_close(
        multiply(values.cuda(), matrix.cuda()).cpu(), values @ matrix, rtol=1e-4, atol=1e-4
    )
