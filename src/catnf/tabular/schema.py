"""What a fitted table looks like: the kinds of its columns and how cells become categories and numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from catnf.errors import InputError
from catnf.tabular.frames import needed

Kind = Literal["categorical", "integer", "continuous", "constant"]
Label = str | int | float | bool

FEW = 20
"""Numbers of up to this many different values, where rows are many more, are categories."""

_SPIKE = 0.05  # share of rows from which on a single number is a category of its own
_SPIKE_ROWS = 10  # and rows that it takes at least
_MOST_SPIKES = 4
_MOST_DECIMALS = 6


@dataclass(frozen=True)
class Column:
    """One column, with all that is needed to encode and decode its cells.

    A cell of a categorical column is one of `labels`, a pooled rare value, or missing. A cell of a numeric
    column is a number, or one of `labels` (values so frequent that they count as categories), or missing.

    Attributes:
        name: of the column.
        kind: what it holds.
        dtype: of the pandas column, as text.
        labels: the categories, the most frequent first.
        pooled: rare values that share one category.
        pooled_counts: how often they occur.
        missing: whether missing cells were seen, and are a value of the column.
        unknown: whether missing cells were seen, and are cells that are not known.
        decimals: that numbers of a continuous column keep to, labels aside, so that drawn ones do too; `None`
            where they have more.
        numbers: whether a numeric column has cells that are neither a label nor missing.
        center: subtracted from numbers.
        scale: what they are then divided by.
        low: smallest number seen.
        high: largest number seen.
        ordered: the categories of a pandas categorical, in its order; empty for other columns.
        is_ordered: whether that order means something.
    """

    name: str
    kind: Kind
    dtype: str
    labels: tuple[Label, ...] = ()
    pooled: tuple[Label, ...] = ()
    pooled_counts: tuple[int, ...] = ()
    missing: bool = False
    numbers: bool = False
    center: float = 0.0
    scale: float = 1.0
    low: float = 0.0
    high: float = 0.0
    ordered: tuple[Label, ...] = ()
    is_ordered: bool = False
    unknown: bool = False
    decimals: int | None = None

    @property
    def numeric(self) -> bool:
        """Whether cells may hold numbers that a density is over."""
        return self.kind in ("integer", "continuous") and self.numbers

    @property
    def size(self) -> int:
        """The number of codes: number, labels, pooled, missing, as far as the column has them."""
        return self.numeric + len(self.labels) + bool(self.pooled) + self.missing

    @property
    def missing_code(self) -> int:
        """The code of missing cells; -1 where none was seen."""
        return self.size - 1 if self.missing else -1

    @property
    def pooled_code(self) -> int:
        """The code that rare values share; -1 where there are none."""
        return self.numeric + len(self.labels) if self.pooled else -1


@dataclass(frozen=True)
class Cells:
    """Encoded cells of one column.

    Attributes:
        codes: `[rows]`, -1 where a value was not seen in fitting.
        values: `[rows]`, centred and scaled numbers; 0 where a cell holds none.
        present: `[rows]`, where a cell holds a number.
        log_share: `[rows]`, log-probability of a pooled value among those it is pooled with.
    """

    codes: NDArray[np.int32]
    values: NDArray[np.float32]
    present: NDArray[np.bool_]
    log_share: NDArray[np.float64]


def learn_column(name: str, series: Any, categorical: bool, rare: int, imputes: bool = False) -> Column:
    """The description of a column, from the rows that a model is fitted to.

    Args:
        name: of the column.
        series: its pandas series.
        categorical: treat it as categorical even if it holds numbers.
        rare: categories with fewer rows than this are pooled.
        imputes: gaps are cells that are not known, and no value of the column.
    """
    pandas = needed("pandas")
    gaps = series.isna().to_numpy()
    ordered, is_ordered = _category_order(series)
    seen = series[~gaps]
    some = bool(gaps.any())
    base = Column(name, "constant", str(series.dtype), missing=some and not imputes, unknown=some and imputes)
    types = pandas.api.types
    if not len(seen):
        return base
    if types.is_datetime64_any_dtype(series) or types.is_timedelta64_dtype(series):
        raise InputError(f"Column {name!r} holds dates; convert it to numbers, or to text for categories.")
    is_number = types.is_numeric_dtype(series) and not types.is_bool_dtype(series)
    if is_number and not np.isfinite(seen.to_numpy(dtype=np.float64)).all():
        raise InputError(f"Column {name!r} holds infinite numbers; replace them by finite ones or gaps.")
    counts = _counts(name, seen)
    if len(counts) == 1:
        kind: Kind = "categorical" if base.missing else "constant"
        return replace(base, kind=kind, labels=(counts[0][0],), ordered=ordered, is_ordered=is_ordered)
    if is_number and not categorical and (len(counts) > FEW or len(counts) > 0.2 * len(seen)):
        return _learn_numbers(base, seen.to_numpy(), counts)
    common = [(label, count) for label, count in counts if count >= rare]
    others = [(label, count) for label, count in counts if count < rare]
    return replace(
        base,
        kind="categorical",
        labels=tuple(label for label, _ in common),
        pooled=tuple(label for label, _ in others),
        pooled_counts=tuple(count for _, count in others),
        ordered=ordered,
        is_ordered=is_ordered,
    )


def _learn_numbers(base: Column, cells: NDArray[Any], counts: Sequence[tuple[Label, int]]) -> Column:
    values = cells.astype(np.float64)
    enough = max(_SPIKE * len(values), _SPIKE_ROWS)
    spikes = [label for label, count in counts[:_MOST_SPIKES] if count > enough]
    others = ~np.isin(values, np.array(spikes, dtype=np.float64))
    rest = values[others]
    center = float(np.median(rest))
    # Half the width of the middle two thirds, which is the standard deviation of a normal distribution.
    low, high = np.quantile(rest, [1 / 6, 5 / 6])
    scale = float(high - low) / 2 or float(rest.std()) or 1.0
    whole = bool((values == np.floor(values)).all())
    decimals = None if whole else _decimals(cells[others])
    least, most = float(rest.min()), float(rest.max())
    return replace(
        base,
        kind="integer" if whole else "continuous",
        labels=tuple(spikes),
        numbers=True,
        center=center,
        scale=scale,
        low=least if decimals is None else round(least, decimals),  # as they are written
        high=most if decimals is None else round(most, decimals),
        decimals=decimals,
    )


def _decimals(cells: NDArray[Any]) -> int | None:
    """The fewest decimals that numbers `[rows]` are written with, in their own precision; `None` for many."""
    values = cells if cells.dtype.kind == "f" else cells.astype(np.float64)
    with np.errstate(over="ignore"):
        return next((n for n in range(_MOST_DECIMALS + 1) if (np.round(values, n) == values).all()), None)


def encode_column(column: Column, series: Any) -> Cells:
    """The cells of a column that `column` describes; values never seen have the code -1."""
    rows = len(series)
    gaps = series.isna().to_numpy()
    values, present = np.zeros(rows, dtype=np.float32), np.zeros(rows, dtype=bool)
    log_share = np.zeros(rows)
    codes = _positions(column.labels, series)
    codes[codes >= 0] += column.numeric
    if column.pooled:
        at = _positions(column.pooled, series)
        shares = np.log(np.array(column.pooled_counts) / sum(column.pooled_counts))
        codes[at >= 0] = column.pooled_code
        log_share[at >= 0] = shares[at[at >= 0]]
    if column.numeric:
        numbers = _as_numbers(column, series)
        present = (codes < 0) & ~gaps
        if not np.isfinite(numbers[present]).all():
            raise InputError(f"Column {column.name!r} holds infinite numbers; replace them or leave gaps.")
        if column.kind == "integer":
            numbers = np.floor(numbers)
        values[present] = (numbers[present] - column.center) / column.scale
        codes[present] = 0
    codes[gaps] = column.missing_code
    return Cells(codes, values, present, log_share)


def decode_column(
    column: Column, codes: NDArray[np.int64], values: NDArray[np.float64], random: np.random.Generator
) -> Any:
    """A pandas series of the column's own dtype from codes `[rows]` and centred, scaled numbers `[rows]`."""
    pandas = needed("pandas")
    cells: NDArray[Any] = np.empty(len(codes), dtype=object)
    if column.kind == "constant":
        cells[:] = column.labels[0] if column.labels else None
    else:
        pool = np.empty(len(column.labels), dtype=object)
        pool[:] = column.labels
        labelled = (codes >= column.numeric) & (codes < column.numeric + len(column.labels))
        cells[labelled] = pool[codes[labelled] - column.numeric]
        if column.pooled:
            rare = np.empty(len(column.pooled), dtype=object)
            rare[:] = column.pooled
            which = codes == column.pooled_code
            shares = np.array(column.pooled_counts) / sum(column.pooled_counts)
            cells[which] = rare[random.choice(len(rare), size=int(which.sum()), p=shares)]
        if column.numeric:
            numbers = np.clip(values * column.scale + column.center, column.low, column.high)
            if column.kind == "integer":
                numbers = np.floor(numbers)
            elif column.decimals is not None:
                numbers = np.round(numbers, column.decimals)
            cells[codes == 0] = numbers[codes == 0]
        if column.missing:
            cells[codes == column.missing_code] = None
    return as_column(column, pandas.Series(cells, dtype=object))


def as_column(column: Column, series: Any) -> Any:
    """Cells as a series of the column's own dtype, or of one near it that gaps fit into."""
    pandas = needed("pandas")
    gaps = bool(series.isna().any())
    if column.dtype == "category":
        dtype = pandas.CategoricalDtype(list(column.ordered), ordered=column.is_ordered)
        return series.astype(dtype)
    numeric = column.dtype.lower().startswith(("int", "uint", "float", "double"))
    if numeric and gaps and column.dtype[0].islower():
        return pandas.to_numeric(series).astype("float64")
    if numeric:
        number = pandas.to_numeric(series)
        return number.astype(column.dtype)
    if column.dtype == "bool" and gaps:
        return series
    return series.astype(column.dtype)


def _positions(labels: tuple[Label, ...], series: Any) -> NDArray[np.int32]:
    """Where the values of a series stand in `labels`, -1 for others."""
    pandas = needed("pandas")
    index = pandas.Index(list(labels))
    values = series.astype(object) if str(series.dtype) == "category" else series
    # Strings of any dtype compare as plain objects; numbers compare as numbers.
    if index.dtype == object or str(index.dtype).startswith("str"):
        index, values = index.astype(object), values.astype(object)
    return np.asarray(index.get_indexer(pandas.Index(values)), dtype=np.int32)


def _as_numbers(column: Column, series: Any) -> NDArray[np.float64]:
    pandas = needed("pandas")
    try:
        numbers = pandas.to_numeric(series, errors="raise")
    except (ValueError, TypeError) as error:
        raise InputError(
            f"Column {column.name!r} was fitted to numbers, but now holds text; give numbers or gaps."
        ) from error
    return np.asarray(numbers.to_numpy(dtype=np.float64, na_value=np.nan))


def _counts(name: str, seen: Any) -> list[tuple[Label, int]]:
    """Values with the number of their rows, the most frequent first and equal ones by their text."""
    counts = seen.value_counts(sort=False)
    counts = counts[counts > 0]
    out = [(_label(name, value), int(count)) for value, count in counts.items()]
    return sorted(out, key=lambda item: (-item[1], str(item[0])))


def _label(name: str, value: Any) -> Label:
    plain = value.item() if isinstance(value, np.generic) else value
    if not isinstance(plain, str | bool | int | float) or (isinstance(plain, float) and math.isnan(plain)):
        raise InputError(
            f"Column {name!r} holds a value of type {type(value).__name__}; convert it to text or numbers."
        )
    return plain


def _category_order(series: Any) -> tuple[tuple[Label, ...], bool]:
    if str(series.dtype) != "category":
        return (), False
    return tuple(_label(str(series.name), value) for value in series.cat.categories), bool(series.cat.ordered)
