"""The logistic base distribution."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from catnf.flows import Logistic
from catnf.flows.base import STANDARD_SCALE, logistic_log_density

Seeded = Callable[[int], torch.Generator]
EDGE = STANDARD_SCALE * math.log((1 - 5e-5) / 5e-5)  # the furthest sample


def test_density_has_mass_1_mean_0_and_deviation_1() -> None:
    z = torch.linspace(-40.0, 40.0, 80_001, dtype=torch.float64)
    density = Logistic().log_prob(z).exp()
    moments = [torch.trapezoid(density * z**power, z).item() for power in (0, 1, 2)]
    assert moments == pytest.approx([1.0, 0.0, 1.0], abs=1e-6)


def test_density_is_that_of_the_distribution_function() -> None:
    z = torch.linspace(-6.0, 6.0, 101, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(torch.sigmoid(z / STANDARD_SCALE).sum(), z)
    torch.testing.assert_close(Logistic().log_prob(z).exp(), slope)


def test_both_tails_are_exact_in_single_precision() -> None:
    u = torch.tensor([-1e4, -100.0, 100.0, 1e4])
    torch.testing.assert_close(logistic_log_density(u), -u.abs(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_temperature_is_the_deviation(temperature: float, seeded: Seeded) -> None:
    z = Logistic().sample((100_000,), seeded(0), temperature=temperature)
    # The kurtosis is 4.2, so that a variance from n draws has relative error sqrt(3.2 / n); 4 of them.
    assert z.var().item() == pytest.approx(temperature**2, rel=4 * math.sqrt(3.2 / 100_000))
    assert z.mean().item() == pytest.approx(0.0, abs=4 * temperature / math.sqrt(100_000))
    assert z.abs().max() <= EDGE * temperature * (1 + 1e-3)


def test_samples_follow_the_distribution_function(seeded: Seeded) -> None:
    z = Logistic().sample((20_000,), seeded(1)).sort().values
    steps = torch.arange(1, 20_001) / 20_000
    assert (torch.sigmoid(z / STANDARD_SCALE) - steps).abs().max() < 1.63 / math.sqrt(20_000)  # level 1 %


def test_samples_are_clipped(seeded: Seeded) -> None:
    z = Logistic().sample((200_000,), seeded(2))
    # About ten of so many uniform numbers lie beyond either edge.
    assert z.max().item() == pytest.approx(EDGE, rel=1e-3)
    assert z.min().item() == pytest.approx(-EDGE, rel=1e-3)


@given(shape=st.lists(st.integers(0, 4), max_size=4).map(tuple))
def test_samples_have_the_shape_and_depend_on_the_seed_alone(shape: tuple[int, ...]) -> None:
    first, again = (Logistic().sample(shape, torch.Generator().manual_seed(5)) for _ in range(2))
    assert first.shape == shape
    assert torch.equal(first, again)
    assert Logistic().log_prob(first).shape == shape
