"""Filling of gaps: cells drawn given the other cells of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from catnf.context import TableContext
from catnf.models.model import draw_categories
from catnf.models.table_flow import TableFlow
from catnf.tabular.coding import Rows, TableCode
from catnf.tabular.drawing import draw_rows, rows_at_once
from catnf.tabular.frames import needed
from catnf.tabular.schema import Column

_SWEEPS = 4  # over the gaps of a row
_CANDIDATES = 24  # numbers, or categories of a long column, that are tried for a gap


def fill_gaps(
    model: TableFlow | None,
    code: TableCode,
    frame: Any,
    draws: int,
    generator: torch.Generator,
    random: np.random.Generator,
) -> Any:
    """A pandas frame with its gaps filled by draws given the other cells of a row; those stay as they are.

    Args:
        model: of the rows; `None` where every column is constant.
        code: how they are encoded.
        frame: with the fitted columns.
        draws: of the likelihood of a candidate.
        generator: source of the candidates.
        random: source of values that share a category.
    """
    gaps = np.stack([frame[column.name].isna().to_numpy() for column in code.columns], axis=1)
    where = np.flatnonzero(gaps.any(axis=1))
    if not len(where):
        return frame
    part = frame.iloc[where]
    x, numbers = torch.zeros(len(part), 0, dtype=torch.int64), torch.zeros(len(part), 0)
    if model is not None:
        x, numbers = impute_rows(model, code, code.encode(part), gaps[where], draws, generator)
    for at, column in enumerate(code.numeric):
        if column.kind == "integer":  # to the middle of the unit, which rounding does not lead out of
            numbers[:, at] += 0.5 / column.scale
    filled = code.decode(x, numbers, random)
    out = frame.copy()
    for index, column in enumerate(code.columns):
        own = gaps[where, index]
        if own.any():
            values = out[column.name].astype(object)
            values.iloc[where[own]] = filled[column.name].astype(object).to_numpy()[own]
            out[column.name] = _as_dtype(values, (frame[column.name].dtype, filled[column.name].dtype))
    return out


def _as_dtype(values: Any, dtypes: Sequence[Any]) -> Any:
    """Values as the first of the dtypes that can hold all of them, or as objects."""
    pandas = needed("pandas")
    for dtype in dtypes:
        if isinstance(dtype, pandas.CategoricalDtype) and not values.dropna().isin(dtype.categories).all():
            continue
        try:
            return values.astype(dtype)
        except (TypeError, ValueError):
            continue
    return values


def impute_rows(
    model: TableFlow,
    code: TableCode,
    rows: Rows,
    gaps: NDArray[np.bool_],
    draws: int,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Fill the gaps of rows, each cell in proportion to the likelihood of the row that it would make.

    Gaps start with values drawn from the model and are then redrawn one column at a time, given all other
    cells, several times over where a row has more than one.

    Args:
        model: of the rows.
        code: how they are encoded.
        rows: of which every one has a gap.
        gaps: `[rows, columns]`, which cells to fill.
        draws: of the likelihood of a candidate.
        generator: source of the candidates.
    """
    x, numbers = rows.x.long().clone(), rows.numbers.clone()
    start_x, start_numbers = draw_rows(model, code, len(x), generator)
    columns = list(code.columns)
    for index, column in enumerate(columns):
        where = torch.from_numpy(gaps[:, index])
        for place in code.places(column.name):
            x[where, place] = start_x[where, place]
        if column.numeric:
            at = code.numeric.index(column)
            numbers[where, at] = start_numbers[where, at]
    sweeps = _SWEEPS if gaps.sum(1).max(initial=0) > 1 else 1
    for _ in range(sweeps):
        for index, column in enumerate(columns):
            where = torch.from_numpy(np.flatnonzero(gaps[:, index]))
            if len(where) and column.kind != "constant":
                x[where], numbers[where] = _redraw(
                    model, code, column, x[where], numbers[where], draws, generator
                )
    return x, numbers


def _redraw(
    model: TableFlow,
    code: TableCode,
    column: Column,
    x: Tensor,
    numbers: Tensor,
    draws: int,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Draw one column's cells anew, given the others."""
    codes, values, log_proposal = _proposals(model, code, column, generator)
    places = code.places(column.name)
    digits = code.split(column, codes)
    at = code.numeric.index(column) if column.numeric else -1
    options, out_x, out_numbers = len(codes), x.clone(), numbers.clone()
    size = max(1, rows_at_once(code) // (options * draws))
    for start in range(0, len(x), size):
        own_x = x[start : start + size].repeat_interleave(options, 0)
        own_numbers = numbers[start : start + size].repeat_interleave(options, 0)
        times = len(own_x) // options
        for place, digit in zip(places, digits, strict=True):
            own_x[:, place] = torch.from_numpy(digit).repeat(times)
        if at >= 0:
            own_numbers[:, at] = values.repeat(times)
        ctx = TableContext(len(own_x), own_x.shape[1], numbers=own_numbers, present=code.presence(own_x))
        log_prob = model.log_prob(own_x, ctx, draws, generator).view(times, options) - log_proposal
        chosen = draw_categories(log_prob, generator) + torch.arange(times) * options
        out_x[start : start + size], out_numbers[start : start + size] = own_x[chosen], own_numbers[chosen]
    return out_x, out_numbers


def _proposals(
    model: TableFlow, code: TableCode, column: Column, generator: torch.Generator
) -> tuple[NDArray[np.int64], Tensor, Tensor]:
    """Codes, numbers and log-probabilities of being proposed: all categories, or samples of the model."""
    labels = np.arange(column.size)
    labels = labels[labels != column.missing_code]
    if not column.numeric and len(labels) <= 4 * _CANDIDATES:
        return labels, torch.zeros(len(labels)), torch.zeros(len(labels))
    # Candidates come from the column's own distribution, which weights then have to be divided by.
    x, numbers = draw_rows(model, code, 64 * _CANDIDATES, generator)
    codes = code.join(column, x.numpy())
    usable = np.flatnonzero(codes != column.missing_code)
    if not len(usable):
        return labels[:1], torch.zeros(1), torch.zeros(1)
    if not column.numeric:
        kept, counts = np.unique(codes[usable], return_counts=True)
        top = np.argsort(-counts)[: 4 * _CANDIDATES]
        return kept[top], torch.zeros(len(top)), torch.zeros(len(top))
    own = numbers[usable, code.numeric.index(column)]
    return _number_proposals(codes[usable], own, column)


def _number_proposals(
    codes: NDArray[np.int64], values: Tensor, column: Column
) -> tuple[NDArray[np.int64], Tensor, Tensor]:
    """Numbers with the width of what they stand for, and every value that is a category of its own.

    Whole numbers stand for themselves while there are few of them; otherwise each quantile stands for the
    interval around it, in which the likelihood is about the same.
    """
    is_number = codes == 0
    # Samples stay within the range seen; far beyond it the outermost quantile would stand for too much.
    own = values[torch.from_numpy(is_number)].double().numpy() * column.scale + column.center
    own = np.clip(own, column.low, column.high)
    whole = column.kind == "integer"
    numbers, widths = np.zeros(0), np.zeros(0)
    if whole and len(np.unique(np.floor(own))) <= 4 * _CANDIDATES:
        numbers = np.unique(np.floor(own))
        widths = np.ones(len(numbers))
    elif len(own):
        numbers = np.quantile(own, (np.arange(_CANDIDATES) + 0.5) / _CANDIDATES)
        widths = np.diff(np.quantile(own, np.linspace(0, 1, _CANDIDATES + 1))).clip(min=1e-9 * column.scale)
        if whole:  # each once, for all the intervals that lie in it
            numbers, which = np.unique(np.floor(numbers), return_inverse=True)
            widths = np.bincount(which, weights=widths).clip(min=1.0)
    special = np.unique(codes[~is_number])
    scaled = torch.from_numpy((numbers - column.center) / column.scale).float()
    return (
        np.concatenate([special, np.zeros(len(numbers), dtype=np.int64)]),
        torch.cat([torch.zeros(len(special)), scaled]),
        torch.cat([torch.zeros(len(special)), -torch.from_numpy(np.log(widths)).float()]),
    )
