"""Filling of gaps: cells drawn given the other cells of their rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from catnf.context import TableContext
from catnf.models.model import draw_categories
from catnf.models.table_flow import TableFlow
from catnf.tabular.coding import Rows, TableCode
from catnf.tabular.conditions import draw_rows, rows_at_once
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
    filled = code.decode(x, numbers, random)
    out = frame.copy()
    for index, column in enumerate(code.columns):
        own = gaps[where, index]
        if own.any():
            values = out[column.name].astype(object)
            values.iloc[where[own]] = filled[column.name].astype(object).to_numpy()[own]
            out[column.name] = values.astype(frame[column.name].dtype)
    return out


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
    """Quantiles of the numbers with their local density, and every value that is a category of its own."""
    is_number = codes == 0
    # Samples stay within the range seen; far beyond it the outermost quantile would stand for too much.
    ends = [(end - column.center) / column.scale for end in (column.low, column.high)]
    own = values[torch.from_numpy(is_number)].double().clamp(*ends).sort().values
    special = np.unique(codes[~is_number])
    out_codes, out_values = special, torch.zeros(len(special))
    log_proposal = torch.zeros(len(special))
    if len(own):
        at = (torch.arange(_CANDIDATES) + 0.5) / _CANDIDATES
        middles = torch.quantile(own, at.double())
        edges = torch.quantile(own, torch.linspace(0, 1, _CANDIDATES + 1, dtype=torch.float64))
        widths = (edges[1:] - edges[:-1]).clamp(min=1e-9) * column.scale
        unit = widths.clamp(min=1.0) if column.kind == "integer" else widths
        numbers = middles.float()
        if column.kind == "integer":  # to the beginning of the whole number they lie in
            whole = torch.floor(middles * column.scale + column.center)
            numbers = ((whole - column.center) / column.scale).float()
        out_codes = np.concatenate([out_codes, np.zeros(_CANDIDATES, dtype=np.int64)])
        out_values = torch.cat([out_values, numbers])
        # Each quantile stands for the interval around it, in which the likelihood is about the same.
        log_proposal = torch.cat([log_proposal, -unit.log().float()])
    return out_codes, out_values, log_proposal
