"""Numbers that options take: one without a meaning is refused, under the name that was typed."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import TypeVar

import typer

from catnf.errors import InputError

T = TypeVar("T")

Check = Callable[[typer.CallbackParam, T], T]

_MOST = 10**9  # what is counted; more would overflow somewhere rather than be of use


def typed_name(param: typer.CallbackParam) -> str:
    """The option as it was typed, `-n` or `--number`."""
    typed = {argument.partition("=")[0] for argument in sys.argv[1:]}
    return next((name for name in param.opts if name in typed), max(param.opts, key=len))


def within(least: float, most: float | None = None) -> Check[T]:
    """A callback of an option that refuses numbers outside of a range.

    Args:
        least: the smallest one.
        most: the largest one; by default whole numbers end where nobody counts.
    """

    def check(param: typer.CallbackParam, value: T) -> T:
        for number in _numbers(value):
            end = most if most is not None else _MOST if isinstance(number, int) else sys.float_info.max
            if least <= number <= end:
                continue
            if most is not None:
                fix = f"one from {least} to {most}"
            else:
                fix = f"at most {end:,}" if least <= number < math.inf else f"at least {least}"
            raise InputError(f"{typed_name(param)} is {number}; give {fix}.")
        return value

    return check


def above_zero(param: typer.CallbackParam, value: T) -> T:
    """A callback of an option that takes positive, finite numbers, such as seconds."""
    for number in _numbers(value):
        if not 0 < number < math.inf:
            raise InputError(f"{typed_name(param)} is {number}; give a finite number above 0.")
    return value


def _numbers(value: object) -> list[int | float]:
    """Those of an option: several, one, or none where it is left out."""
    several = value if isinstance(value, tuple | list) else (value,)
    return [number for number in several if isinstance(number, int | float)]


a_seed: Check[int | None] = within(0, 2**32 - 1)
