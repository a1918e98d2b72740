"""What drawn rows are given: values or ranges of some columns, as codes and ends of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from catnf.configuration import nearest
from catnf.errors import InputError
from catnf.tabular.coding import TableCode
from catnf.tabular.frames import needed
from catnf.tabular.schema import Column, as_column, encode_column


@dataclass(frozen=True)
class Condition:
    """What the cells of a column may be.

    Attributes:
        column: of the table.
        codes: any of these.
        ends: what a number must lie within, centred and scaled; `None` where there is no number.
        value: as it was given: a cell's, or a range.
    """

    column: Column
    codes: tuple[int, ...]
    ends: tuple[float, float] | None
    value: Any

    @property
    def pooled(self) -> bool:
        """Whether the value is one of those that share a category."""
        return self.codes == (self.column.pooled_code,)

    def cells(self, count: int) -> Any:
        """A pandas series of the value, `count` times."""
        pandas = needed("pandas")
        return as_column(self.column, pandas.Series([self.value] * count, dtype=object))


def conditions(code: TableCode, given: Mapping[str, Any]) -> list[Condition]:
    """The conditions of values and ranges by column, or `InputError` where no row can meet them."""
    columns = {column.name: column for column in code.columns}
    for name in given:
        if name not in columns:
            raise InputError(f"There is no column {name!r}.{nearest(name, columns)}")
    return [_condition(columns[name], value) for name, value in given.items()]


def _condition(column: Column, value: Any) -> Condition:
    pandas = needed("pandas")
    name = column.name
    if isinstance(value, tuple | list):
        if not column.numeric:
            raise InputError(f"{name!r} has no range of numbers; give one value instead of {value!r}.")
        ends = [float(end) for end in value if isinstance(end, Real)]
        if len(ends) != 2 or len(value) != 2 or not ends[0] <= ends[1]:
            raise InputError(f"The range of {name!r} is {value!r}; give (low, high) with low up to high.")
        return _range(column, ends[0], ends[1], value)
    cells = encode_column(column, pandas.Series([value], dtype=object))
    found = int(cells.codes[0])
    if column.numeric and found == 0:
        if column.kind == "continuous" and column.decimals is None:
            raise InputError(
                f"{name!r} is continuous, so no row has exactly {value!r}; give a range (low, high)."
            )
        return _range(column, float(value), float(value), value)
    if found < 0:
        raise InputError(f"Column {name!r} never held {value!r} in fitting; give a value it has.")
    return Condition(column, (found,), None, value)


def _range(column: Column, low: float, high: float, value: Any) -> Condition:
    """Numbers within the ends, and those so frequent that they are categories of their own."""
    frequent = np.array(column.labels, dtype=np.float64)
    codes = tuple((1 + np.flatnonzero((low <= frequent) & (frequent <= high))).tolist())
    ends = _scaled(column, low, high)
    if ends is not None:
        codes = (0, *codes)
    if not codes:
        kind = "whole numbers " if column.kind == "integer" else ""
        if column.decimals is not None:
            kind = f"numbers of {column.decimals} decimal{'s' if column.decimals != 1 else ''} "
        asked = f"{low:.12g} to {high:.12g}" if low < high else f"{low:.12g}"
        least, most = min([column.low, *frequent]), max([column.high, *frequent])
        raise InputError(
            f"Column {column.name!r} held {kind}from {least:.12g} to {most:.12g} in fitting, and none "
            f"of these is {asked}; give a range that has some."
        )
    return Condition(column, codes, ends, value)


def _scaled(column: Column, low: float, high: float) -> tuple[float, float] | None:
    """Where drawn numbers, centred and scaled, must lie; `None` where none can.

    Numbers are cut off at those seen in fitting, so a range beyond these holds none.
    """
    if low > column.high + 1.0 or high < column.low - 1.0:  # far beyond, maybe infinite
        return None
    low, high = max(low, column.low), min(high, column.high)
    # What is drawn from so much below a number to so much above becomes that number.
    below, above = 0.0, 0.0
    if column.kind == "integer":
        low, high, above = math.ceil(low), math.floor(high), 1.0
    elif column.decimals is not None:
        low, high = _written(column, low, math.ceil), _written(column, high, math.floor)
        below = above = 0.5 * 10.0**-column.decimals
    if low > high:
        return None
    first = -math.inf if low <= column.low else (low - below - column.center) / column.scale
    last = math.inf if high >= column.high else (high + above - column.center) / column.scale
    return first, last


def _written(column: Column, number: float, towards: Callable[[float], int]) -> float:
    """A number with the decimals of a column: itself where it has these, or the next one."""
    units = 10.0 ** (column.decimals or 0)
    nearest = round(number * units)
    is_that = math.isclose(number * units, nearest, rel_tol=_precision(column.dtype), abs_tol=1e-6)
    return (nearest if is_that else towards(number * units)) / units


def _precision(dtype: str) -> float:
    """By which share numbers of a column may differ from how they are written."""
    name = dtype.lower()
    if name.startswith(("float16", "half")):
        return 1e-3
    return 2e-7 if name.startswith(("float32", "float[")) else 1e-14
