"""The mixture's map against formulas in double precision, its tails, and its inverse."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from catnf.context import SetContext
from catnf.flows import (
    ChannelMask,
    Mixture,
    MixtureCoupling,
    Sequential,
    mixture_logit,
    mixture_logit_inverse,
)
from catnf.flows.coupling import unconverged_roots
from catnf.nets import MLP

SHAPES = st.lists(st.integers(1, 4), min_size=0, max_size=3).map(tuple)
EPSILON = torch.finfo(torch.float32).eps


def uniform(shape: tuple[int, ...], low: float, high: float, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return low + (high - low) * torch.rand(shape, generator=generator, dtype=torch.float64)


def random_mixture(
    shape: tuple[int, ...], reach: float = 2.0, scales: tuple[float, float] = (-1.0, 1.0), seed: int = 0
) -> Mixture:
    """Means within `reach` of zero, scales from `e^scales[0]` to `e^scales[1]`, in double precision."""
    return Mixture(
        uniform(shape, -3.0, 3.0, seed),
        uniform(shape, -reach, reach, seed + 1),
        uniform(shape, *scales, seed + 2),
    )


def single(mixture: Mixture) -> Mixture:
    return Mixture(*(t.float() for t in mixture))


def direct(x: Tensor, mixture: Mixture) -> tuple[Tensor, Tensor]:
    """The textbook formulas, good in double precision where neither F nor 1 - F is tiny."""
    weights = torch.softmax(mixture.logits, -1)
    scales = mixture.log_scales.exp()
    sigmoid = torch.sigmoid((x.unsqueeze(-1) - mixture.means) / scales)
    cdf = (weights * sigmoid).sum(-1)
    density = (weights * sigmoid * (1 - sigmoid) / scales).sum(-1)
    return torch.log(cdf / (1 - cdf)), torch.log(density / (cdf * (1 - cdf)))


@given(shape=SHAPES, mixtures=st.integers(1, 5), seed=st.integers(0, 10_000))
def test_bulk_follows_the_definition(shape: tuple[int, ...], mixtures: int, seed: int) -> None:
    mixture = random_mixture((*shape, mixtures), seed=seed)
    x = uniform(shape, -4.0, 4.0, seed + 3)
    expected = direct(x, mixture)
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 2e-5)):
        found = mixture_logit(x.to(dtype), Mixture(*(t.to(dtype) for t in mixture)))
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.shape == shape
            assert ours.dtype == dtype
            torch.testing.assert_close(ours.double(), theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("side", [-1.0, 1.0])
@pytest.mark.parametrize("distance", [100.0, 1e3, 1e4])
def test_far_tails_are_those_of_the_widest_component(side: float, distance: float) -> None:
    weights, means = torch.tensor([0.5, 0.2, 0.3]), torch.tensor([-1.0, 2.0, 0.5])
    log_scales = torch.tensor([-1.0, 1.0, 0.0])
    x = torch.tensor(side * distance)
    logit, log_derivative = mixture_logit(x, Mixture(weights.log(), means, log_scales))
    u = (side * distance - 2.0) / math.e
    torch.testing.assert_close(logit.item(), u - side * math.log(0.2), rtol=4 * EPSILON, atol=0)
    # The derivative is the difference of two numbers of the size of u.
    torch.testing.assert_close(log_derivative.item(), -1.0, rtol=0, atol=4 * EPSILON * abs(u))


@pytest.mark.parametrize("x", [-1e4, -300.0, 300.0, 1e4])
def test_tails_and_their_gradients_are_finite(x: float) -> None:
    mixture = single(random_mixture((500, 4), 3.0, (-6.0, 3.0)))
    inputs = [t.requires_grad_() for t in (torch.full((500,), x), *mixture)]
    logit, log_derivative = mixture_logit(inputs[0], Mixture(*inputs[1:]))
    assert torch.isfinite(logit).all()
    assert torch.isfinite(log_derivative).all()
    for gradient in torch.autograd.grad(logit.sum() + log_derivative.sum(), inputs):
        assert torch.isfinite(gradient).all()


def test_a_latent_in_float64_comes_back_through_parameters_in_float32() -> None:
    """Scales are rounded, and the bracket must be that of the rounded ones."""
    for mixtures in (1, 3):
        mixture = random_mixture((5000, mixtures), reach=20.0, scales=(-5.0, 3.0))
        mixture = Mixture(*(part.float() for part in mixture))
        y = uniform((5000,), -9.0, 9.0, seed=4)
        root = mixture_logit_inverse(y, mixture)
        assert root.value.dtype == torch.float64
        assert bool(root.converged.all())
        torch.testing.assert_close(mixture_logit(root.value, mixture)[0], y, rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_monotone(dtype: torch.dtype) -> None:
    mixture = random_mixture((50, 1, 4), 3.0, (-3.0, 2.0))
    x = torch.linspace(-200.0, 200.0, 4001, dtype=dtype).expand(50, -1)
    logit, _ = mixture_logit(x, Mixture(*(t.to(dtype) for t in mixture)))
    rise = logit.diff(dim=-1)
    if dtype == torch.float64:
        assert (rise > 0).all()
    # Single precision may repeat a number, and a plateau may wobble by its last digit.
    assert (rise >= -2 * torch.finfo(dtype).eps * logit[:, 1:].abs().clamp(min=1.0)).all()


def modes(narrow: float) -> Mixture:
    """Four modes far apart, all of them narrow, with plateaus between."""
    means = torch.tensor([-60.0, -20.0, 20.0, 60.0], dtype=torch.float64).expand(2000, -1)
    return Mixture(uniform((2000, 4), -3, 3, 5), means, torch.full_like(means, narrow))


INVERTIBLE: dict[str, Callable[[], Mixture]] = {
    "plain": lambda: random_mixture((2000, 8)),
    "one component": lambda: random_mixture((2000, 1), 5.0, (-6.0, 3.0)),
    "all scales": lambda: random_mixture((2000, 8), 3.0, (-6.0, 3.0)),
    "two of all scales": lambda: random_mixture((2000, 2), 3.0, (-6.0, 3.0)),
    "narrow modes": lambda: modes(-6.0),
    "modes": lambda: modes(-2.0),
    "one component in charge": lambda: random_mixture((2000, 3))._replace(
        logits=torch.tensor([40.0, -40.0, 0.0], dtype=torch.float64).expand(2000, -1)
    ),
    "equal components": lambda: Mixture(*(t[..., :1].expand(-1, 4) for t in random_mixture((2000, 4)))),
}


@pytest.mark.parametrize("reach", [1.0, 15.0, 300.0])
@pytest.mark.parametrize("name", INVERTIBLE)
def test_inverse_finds_every_latent(name: str, reach: float) -> None:
    mixture = single(INVERTIBLE[name]())
    y = uniform((2000,), -reach, reach, 9).float()
    root = mixture_logit_inverse(y, mixture)
    assert root.converged.all()
    back, log_derivative = mixture_logit(root.value, mixture)
    # The root is right to a few digits of x; where the map is steep that is many digits of y.
    slack = 4 * EPSILON * (1.0 + root.value.abs()) * log_derivative.exp()
    assert ((back - y).abs() <= slack + 1e-5 * (1.0 + y.abs())).all()


@given(shape=SHAPES, mixtures=st.integers(1, 5), seed=st.integers(0, 10_000))
def test_round_trip_of_any_shape(shape: tuple[int, ...], mixtures: int, seed: int) -> None:
    mixture = single(random_mixture((*shape, mixtures), seed=seed))
    x = uniform(shape, -8.0, 8.0, seed + 3).float()
    root = mixture_logit_inverse(mixture_logit(x, mixture)[0], mixture)
    assert root.value.shape == root.converged.shape == shape
    assert root.converged.all()
    torch.testing.assert_close(root.value, x, rtol=1e-5, atol=1e-5)


def test_implicit_gradient_is_that_of_finite_differences() -> None:
    mixture = random_mixture((6, 3))
    inputs = [t.requires_grad_() for t in (uniform((6,), -6.0, 6.0, 4), *mixture)]

    def solve(y: Tensor, *parameters: Tensor) -> Tensor:
        return mixture_logit_inverse(y, Mixture(*parameters)).value

    assert torch.autograd.gradcheck(solve, inputs, eps=1e-6, atol=1e-7, rtol=1e-5)


@pytest.mark.parametrize("wanted", range(4))
def test_one_input_with_a_gradient_is_enough(wanted: int) -> None:
    inputs = [uniform((5,), -3.0, 3.0, 4), *random_mixture((5, 3))]
    inputs[wanted].requires_grad_()
    value = mixture_logit_inverse(inputs[0], Mixture(*inputs[1:])).value
    (gradient,) = torch.autograd.grad(value.sum(), inputs[wanted])
    assert (gradient != 0).any()


@pytest.mark.parametrize("name", INVERTIBLE)
def test_asking_for_gradients_does_not_move_the_root(name: str) -> None:
    mixture = single(INVERTIBLE[name]())
    y = uniform((2000,), -15.0, 15.0, 9).float()
    plain = mixture_logit_inverse(y, mixture).value
    tracked = mixture_logit_inverse(y.requires_grad_(), mixture).value
    torch.testing.assert_close(tracked, plain, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("log_scale", [-0.5, -1.0, -3.0])
def test_asking_for_gradients_on_a_plateau_does_not_move_the_root(log_scale: float) -> None:
    # Two modes: logit F hardly rises between them, so that a last digit of y stands for a wide range of x.
    log_scales = torch.full((2,), log_scale)
    mixture = Mixture(torch.tensor([0.3, -0.2]), torch.tensor([-8.0, 8.0]), log_scales)
    y = mixture_logit(torch.linspace(-4.0, 4.0, 9), mixture)[0]
    y = torch.cat([y, y + 1e-7])
    plain = mixture_logit_inverse(y, mixture).value
    tracked = mixture_logit_inverse(y.requires_grad_(), mixture).value
    torch.testing.assert_close(tracked, plain, rtol=0, atol=1e-2)


def coupling(perturb: Callable[..., MixtureCoupling]) -> MixtureCoupling:
    mask = ChannelMask()
    return perturb(MixtureCoupling(MLP(1, MixtureCoupling.outputs(2, mask, 3), hidden=8), 2, mask, 3))


def test_failed_roots_are_counted_and_the_counters_reset(perturb: Callable[..., MixtureCoupling]) -> None:
    flow = Sequential([coupling(perturb), coupling(perturb)])
    ctx = SetContext(2, 3)
    with torch.no_grad():
        flow.inverse(torch.randn(2, 3, 2), ctx)
        assert unconverged_roots(flow) == 0
        broken = torch.randn(2, 3, 2)
        broken[0, :2, 1] = math.nan  # no bracket and hence no root, in a channel that conditions nothing
        for part in flow:
            part.inverse(broken, ctx)
    assert [int(part.unconverged) for part in flow] == [2, 2]  # type: ignore[arg-type]
    assert unconverged_roots(flow) == 4
    assert unconverged_roots(flow) == 0


def test_parameters_that_are_no_numbers_are_no_success() -> None:
    mixture = Mixture(torch.full((3,), math.nan), torch.tensor([-1.0, 0.0, 1.0]), torch.zeros(3))
    assert not mixture_logit_inverse(torch.tensor(0.5), mixture).converged


def test_flows_without_mixtures_have_no_roots() -> None:
    assert unconverged_roots(Sequential([])) == 0
