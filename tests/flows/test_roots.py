"""The bracketed Newton search."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from catnf.flows.roots import bracketed_newton


def cubic(x: Tensor) -> tuple[Tensor, Tensor]:
    return x**3 - 8.0, 3.0 * x**2


def cube_root(x: Tensor) -> tuple[Tensor, Tensor]:
    """Newton's method alone runs away from the root of this one."""
    size = x.abs().clamp(min=1e-30)
    return x.sign() * size ** (1 / 3), size ** (-2 / 3) / 3


def test_one_step_is_reported_as_not_converged() -> None:
    root = bracketed_newton(cubic, torch.tensor([0.0]), torch.tensor([9.0]), steps=1)
    assert not root.converged.any()


def test_every_element_has_its_own_verdict() -> None:
    # The second bracket is centred on the root, so that a single step is enough there.
    root = bracketed_newton(cubic, torch.tensor([0.0, 1.0]), torch.tensor([9.0, 3.0]), steps=1)
    assert root.converged.tolist() == [False, True]
    assert root.value[1] == 2.0


def test_not_a_number_is_reported() -> None:
    root = bracketed_newton(lambda x: (x * torch.nan, x), torch.tensor([0.0]), torch.tensor([9.0]))
    assert not root.converged.any()


def test_what_ends_the_search_is_converged() -> None:
    """A step at the very edge of the tolerance: rounding it must not turn the verdict."""
    low, high = torch.linspace(0.5, 40.0, 20_001), torch.linspace(2.5, 42.0, 20_001)
    start = 0.5 * (low + high)
    root = start - 1e-5 * (1.0 + start)
    settled = (start - root) <= 1e-5 * (1.0 + start)
    assert 1000 < int(settled.sum()) < 20_000, "some at either side of the edge"
    found = bracketed_newton(lambda x: (x - root, torch.ones_like(x)), low, high, steps=1)
    assert bool(found.converged[settled].all())


@pytest.mark.parametrize(("low", "high"), [(0.0, 9.0), (2.0, 9.0), (-5.0, 2.0), (2.0, 2.0), (-1e3, 1e3)])
def test_brackets(low: float, high: float) -> None:
    root = bracketed_newton(cubic, torch.tensor([low]), torch.tensor([high]), steps=60)
    assert root.converged.all()
    torch.testing.assert_close(root.value, torch.tensor([2.0]), rtol=1e-5, atol=0)


def test_bisection_saves_a_runaway_newton() -> None:
    low, high = torch.tensor([-1.0, -3.0, -100.0]), torch.tensor([1.5, 500.0, 1.0])
    root = bracketed_newton(cube_root, low, high, steps=60)
    assert root.converged.all()
    assert (root.value.abs() < 1e-4).all()


def test_a_step_and_a_plateau() -> None:
    def sigmoid(x: Tensor) -> tuple[Tensor, Tensor]:
        value = torch.sigmoid(1e3 * (x - 0.7))
        return value - 0.25, 1e3 * value * (1.0 - value)

    root = bracketed_newton(sigmoid, torch.tensor([-40.0]), torch.tensor([60.0]), steps=40)
    assert root.converged.all()
    torch.testing.assert_close(root.value, torch.tensor([0.7 - 1.0986e-3]), rtol=0, atol=1e-5)


def test_more_steps_do_no_harm() -> None:
    low, high = torch.tensor([0.0, 1.9]), torch.tensor([9.0, 50.0])
    # Compiled code cannot stop early; running all steps on must stay at the root.
    few, many = (
        torch.compile(bracketed_newton, backend="eager")(cubic, low, high, steps=s) for s in (12, 60)
    )
    assert few.converged.all()
    assert many.converged.all()
    torch.testing.assert_close(few.value, many.value)


@given(
    shape=st.lists(st.integers(1, 4), min_size=0, max_size=3),
    seed=st.integers(0, 10_000),
)
def test_any_shape_and_any_increasing_cubic(shape: list[int], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    root = 4.0 * torch.randn(shape, generator=generator, dtype=torch.float64)
    slope = 0.1 + torch.rand(shape, generator=generator, dtype=torch.float64)
    below, above = (10.0 * torch.rand(shape, generator=generator, dtype=torch.float64) for _ in range(2))

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        return (x - root) ** 3 + slope * (x - root), 3.0 * (x - root) ** 2 + slope

    found = bracketed_newton(function, root - below, root + above)
    assert found.value.shape == found.converged.shape == torch.Size(shape)
    assert found.converged.all()
    torch.testing.assert_close(found.value, root, rtol=0, atol=1e-5)
