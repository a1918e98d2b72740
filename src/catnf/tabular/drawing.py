"""Rows, drawn freely or given some of their cells: what is given comes first, ranges by resampling."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from catnf.errors import InputError
from catnf.models.model import draw_categories
from catnf.models.table_flow import TableFlow
from catnf.tabular.coding import TableCode
from catnf.tabular.conditions import Condition

_AT_ONCE = 1 << 15  # elements that are drawn at once
_TRIED_EACH = 40  # candidates for every row asked for, within the limits below
_LEAST_TRIED, _MOST_TRIED = 10_000, 200_000


def draw_rows(
    model: TableFlow, code: TableCode, count: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw categories `[count, elements]` and numbers `[count, numeric columns]`."""
    xs, numbers = [], []
    size = rows_at_once(code)
    for start in range(0, count, size):
        now = min(size, count - start)
        x = torch.zeros(now, 0, dtype=torch.int64)
        if code.sizes:
            x = draw_categories(model.posterior(model.latents(now, generator)), generator)
        xs.append(x)
        numbers.append(_draw_numbers(model, code, x, generator))
    return torch.cat(xs), torch.cat(numbers)


def draw_given(
    model: TableFlow, code: TableCode, count: int, wanted: Sequence[Condition], generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw rows given the values of some columns.

    Given categories take the first turns, and the others are drawn given them. Numbers come last: candidates
    whose numbers are outside a range weigh nothing, and the others are resampled by their weights. The number
    of candidates is limited; a small effective sample is a warning.
    """
    size, tried = min(rows_at_once(code), max(1024, 4 * count)), 0
    most = min(max(_TRIED_EACH * count, _LEAST_TRIED), max(_MOST_TRIED, count))
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    effective = 0.0
    while tried < most and effective < 2 * count:
        x, numbers, log_weight = _candidates(model, code, size, wanted, generator)
        alive = log_weight > -30.0  # the rest has no part in anything
        parts.append((x[alive], numbers[alive], log_weight[alive]))
        tried += size
        weights = torch.cat([part[2] for part in parts]).double().exp()
        effective = float(weights.sum() ** 2 / weights.square().sum()) if len(weights) else 0.0
    named = ", ".join(f"{condition.column.name}={condition.value!r}" for condition in wanted)
    if effective < 1.0:
        raise InputError(f"None of {tried:,} candidates fits {named}; ask for something less rare.")
    if effective < count:
        warnings.warn(
            f"Only {effective:.0f} effective rows of {tried:,} candidates fit {named}, "
            f"for {count:,} asked for; rows repeat.",
            stacklevel=3,
        )
    weights = torch.cat([part[2] for part in parts]).exp()
    chosen = torch.multinomial(weights, count, replacement=True, generator=generator)
    if effective >= 2 * count:  # enough of them: none twice
        chosen = torch.multinomial(weights, count, replacement=False, generator=generator)
    return torch.cat([part[0] for part in parts])[chosen], torch.cat([part[1] for part in parts])[chosen]


def _candidates(
    model: TableFlow,
    code: TableCode,
    size: int,
    wanted: Sequence[Condition],
    generator: torch.Generator,
) -> tuple[Tensor, Tensor, Tensor]:
    log_weight = torch.zeros(size)
    x = torch.zeros(size, 0, dtype=torch.int64)
    if code.sizes:
        given = torch.full((len(code.sizes),), -1)
        for condition in wanted:
            if len(condition.codes) == 1:
                digits = code.split(condition.column, np.array(condition.codes))
                for place, digit in zip(code.places(condition.column.name), digits, strict=True):
                    given[place] = int(digit[0])
        x, log_weight = model.draw_given(size, given, generator)
    alive = (log_weight > -30.0).nonzero().squeeze(1)  # numbers cost as much as categories
    numbers = torch.zeros(size, len(code.numeric))
    if len(alive):
        numbers[alive] = _draw_numbers(model, code, x[alive], generator)
    for condition in wanted:
        if condition.column.numeric:
            codes = torch.from_numpy(code.join(condition.column, x.numpy()))
            outside = ~torch.isin(codes, torch.tensor(condition.codes))
            if condition.ends is not None:
                own = numbers[:, code.numeric.index(condition.column)]
                outside |= (codes == 0) & ((own < condition.ends[0]) | (own > condition.ends[1]))
            log_weight = log_weight.masked_fill(outside, -math.inf)
    return x, numbers, log_weight


def _draw_numbers(model: TableFlow, code: TableCode, x: Tensor, generator: torch.Generator) -> Tensor:
    if model.numeric is None:
        return torch.zeros(len(x), 0)
    with torch.no_grad():
        return model.numeric.sample(x, code.presence(x), generator)


def rows_at_once(code: TableCode) -> int:
    """How many rows to handle at once, so that memory stays bounded."""
    cells = max(code.sizes, default=1) * len(code.sizes) / 8 + len(code.numeric) + 1
    return max(16, int(_AT_ONCE / max(8.0, cells)) * 4)
