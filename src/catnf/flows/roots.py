"""Roots of increasing functions, many at once, in a fixed number of steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Root(NamedTuple):
    """The solution of `function(x) = 0`, elementwise.

    Attributes:
        value: the root.
        converged: true where the last step, or Newton's step from there, was below the tolerance.
    """

    value: Tensor
    converged: Tensor


def bracketed_newton(
    function: Callable[[Tensor], tuple[Tensor, Tensor]],
    low: Tensor,
    high: Tensor,
    steps: int = 20,
    tolerance: float = 1e-5,
) -> Root:
    """Newton's method kept inside a shrinking bracket.

    A step that would leave the bracket, or that is more than half as long as the step before the last,
    is replaced by a bisection; so the steps shrink at least geometrically, and near the root as Newton's do.

    Args:
        function: gives the value of an increasing function and its derivative.
        low: where the function is not above zero.
        high: where the function is not below zero, of the same shape.
        steps: the number of evaluations; all of them on a GPU, at most so many on a CPU.
        tolerance: of the last step, relative to `1 + |x|`.

    Example:
        >>> low, high = torch.tensor([0.0]), torch.tensor([9.0])
        >>> root = bracketed_newton(lambda x: (x**3 - 8.0, 3.0 * x**2), low, high)
        >>> root.value, root.converged
        (tensor([2.]), tensor([True]))
    """
    x = 0.5 * (low + high)
    before = step = value = high - low
    settled = torch.zeros_like(x, dtype=torch.bool)
    for _ in range(steps):
        value, derivative = function(x)
        low = torch.where(value <= 0, x, low)
        high = torch.where(value >= 0, x, high)
        change = -value / derivative.clamp(min=1e-12)
        # At the root the change is rounding noise, which need neither shrink nor stay inside: it is not a
        # reason to bisect.
        settled = change.abs() <= tolerance * (1.0 + x.abs())
        newton = x + change
        newton = torch.where(settled, torch.minimum(torch.maximum(newton, low), high), newton)
        shrinking = change.abs() <= 0.5 * before.abs()
        inside = (newton >= low) & (newton <= high)
        new = torch.where(inside & (shrinking | settled), newton, 0.5 * (low + high))
        before, step = step, new - x
        x = new
        # Reading a result stops a GPU but costs a CPU nothing.
        if x.device.type == "cpu" and not torch.compiler.is_compiling() and bool(settled.all()):
            break
    # What was settled moved by no more than that, but for rounding; so it is not asked again.
    settled = settled | (step.abs() <= tolerance * (1.0 + x.abs()))
    # A function that gives no number moves nothing, which is not convergence.
    return Root(x, settled & torch.isfinite(value))
