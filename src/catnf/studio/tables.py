"""An uploaded table: read, learned quickly, and searched for unusual rows."""

from __future__ import annotations

import math
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from catnf.errors import CatnfError, InputError
from catnf.studio.desk import Report
from catnf.studio.limits import Limits

_KINDS = (".csv", ".tsv")  # plain text, whose size in memory is in proportion to its bytes
_DRAWS = 4  # of a likelihood: a few rank rows nearly as well as many
_AT_ONCE = 512  # rows that are scored before the next report
_FITTING = 0.75  # share of the bar
_FEW_STEPS = 50  # of learning, with which even two columns are hardly known
_LONGEST = 60  # characters of a cell that are shown


def prepare_anomalies(content: bytes, name: str, limits: Limits) -> Callable[[Report], dict[str, Any]]:
    """Read a table, or refuse it, and return what learns it and finds its least likely rows.

    Args:
        content: of the file.
        name: of the file, which tells commas from tabs.
        limits: of its size.
    """
    frame = read_upload(content, name)
    rows, columns = frame.shape
    if not 2 <= rows <= limits.rows:
        raise InputError(f"{name} has {rows:,} rows; give 2 to {limits.rows:,}, or use catnf fit.")
    if columns > limits.columns:
        raise InputError(f"{name} has {columns:,} columns; give at most {limits.columns}, or use catnf fit.")

    def work(report: Report) -> dict[str, Any]:
        return find_anomalies(frame, limits, report)

    return work


def read_upload(content: bytes, name: str) -> Any:
    """A table from the bytes of a file, which lie in a temporary folder while they are read."""
    from catnf.tabular.frames import read_table

    kind = Path(name).suffix.lower()
    if kind not in _KINDS:
        raise InputError(f"{name[:_LONGEST]!r} is no table; give a file that ends in .csv or .tsv.")
    with tempfile.TemporaryDirectory(prefix="catnf-studio-") as folder:
        file = Path(folder) / f"table{kind}"
        file.write_bytes(content)
        try:
            return read_table(file)
        except CatnfError as error:
            raise InputError(str(error).replace(str(file), Path(name).name[:_LONGEST])) from error


def find_anomalies(frame: Any, limits: Limits, report: Report) -> dict[str, Any]:
    """Fit a model to a table for a limited time, and rank its rows; the least likely come first."""
    from catnf.tabular import CategoricalFlow

    start = time.monotonic()

    def told(step: int, steps: int, bits: float | None) -> None:
        share = max(step / max(1, steps), (time.monotonic() - start) / limits.seconds)
        report(_FITTING * min(1.0, share), f"learning the table, step {step:,} of at most {steps:,}")

    flow = CategoricalFlow(max_seconds=limits.seconds, draws=_DRAWS, random_state=0)
    report(0.0, "learning the table")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        flow.fit(frame, progress=told)
    scores = np.zeros(len(frame))
    for first in range(0, len(frame), _AT_ONCE):
        done = first / len(frame)
        report(_FITTING + (1 - _FITTING) * done, f"scoring rows, {first:,} of {len(frame):,}")
        scores[first : first + _AT_ONCE] = flow.score_samples(frame.iloc[first : first + _AT_ONCE])
    order = np.argsort(scores, kind="stable")[: limits.anomalies]
    shown = frame.iloc[order].astype(object).to_numpy()
    own = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
    if flow.n_steps_ < _FEW_STEPS:
        own.append(
            f"Only {flow.n_steps_} steps of learning fitted into {limits.seconds:g} s, too few to trust "
            "this order; try again while the machine is less busy, or use catnf fit."
        )
    return {
        "columns": [str(column) for column in frame.columns],
        "kinds": list(flow.columns_.values()),
        "rows": [
            # The header is line 1 of the file.
            {"line": int(place) + 2, "log_likelihood": round(float(scores[place]), 2), "cells": _cells(cells)}
            for place, cells in zip(order, shown, strict=True)
        ],
        "total": len(frame),
        "median": round(float(np.median(scores)), 2),
        "steps": flow.n_steps_,
        "notes": own,
    }


def _cells(values: Any) -> list[str]:
    return [_cell(value) for value in values]


def _cell(value: object) -> str:
    """A cell as text; a gap is empty.

    >>> _cell(float("nan")), _cell(2.5), _cell("a" * 80)[-2:]
    ('', '2.5', 'a…')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
