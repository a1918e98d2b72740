"""An uploaded table: read, learned quickly, and searched for unusual rows."""

from __future__ import annotations

import csv
import io
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from catnf.errors import CatnfError, InputError
from catnf.studio.desk import Report
from catnf.studio.limits import Limits

_KINDS = {".csv": ",", ".tsv": "\t"}
_ROUGHLY = 4  # times the limits may a file seem to have before it is read, where quotes are not understood
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
    frame, lines = read_upload(content, name, limits)
    rows, columns = frame.shape
    if not 2 <= rows <= limits.rows:
        raise InputError(f"{name} has {rows:,} rows; give 2 to {limits.rows:,}, or use catnf fit.")
    if columns > limits.columns:
        raise InputError(f"{name} has {columns:,} columns; give at most {limits.columns}, or use catnf fit.")

    def work(report: Report) -> dict[str, Any]:
        return find_anomalies(frame, lines, limits, report)

    return work


def read_upload(content: bytes, name: str, limits: Limits) -> tuple[Any, list[int]]:
    """A table from the bytes of a file, which lie in a temporary folder while they are read.

    Returns:
        The frame, and the line of the file that each of its rows starts on.
    """
    from catnf.tabular.frames import read_table

    kind = Path(name).suffix.lower()
    if kind not in _KINDS:
        raise InputError(f"{name[:_LONGEST]!r} is no table; give a file that ends in .csv or .tsv.")
    # Short rows are filled up to the width of the header, so that few bytes could need much memory.
    lines = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    rows, columns = lines.count(b"\n"), lines.split(b"\n", 1)[0].count(_KINDS[kind].encode()) + 1
    if rows > _ROUGHLY * limits.rows or columns > _ROUGHLY * limits.columns:
        raise InputError(
            f"{name[:_LONGEST]} has {rows:,} lines and {columns:,} columns; give at most {limits.rows:,} "
            f"rows and {limits.columns} columns, or use catnf fit."
        )
    with tempfile.TemporaryDirectory(prefix="catnf-studio-") as folder:
        file = Path(folder) / f"table{kind}"
        file.write_bytes(content)
        try:
            frame = read_table(file)
        except CatnfError as error:
            raise InputError(str(error).replace(str(file), Path(name).name[:_LONGEST])) from error
    starts = _first_lines(content, _KINDS[kind])[1:]
    return frame, starts if len(starts) == len(frame) else [place + 2 for place in range(len(frame))]


def _first_lines(content: bytes, separator: str) -> list[int]:
    """The line that each row starts on, the header's first; blank lines are no rows."""
    reader = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), delimiter=separator)
    found, before = [], 0
    try:
        for row in reader:
            if len(row) > 1 or any(cell.strip() for cell in row):
                found.append(before + 1)
            before = reader.line_num
    except csv.Error:  # what pandas reads all the same
        return []
    return found


def find_anomalies(frame: Any, lines: Sequence[int], limits: Limits, report: Report) -> dict[str, Any]:
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
    few = frame.iloc[order]
    shown = [
        ["" if gap else _cell(value) for value, gap in zip(cells, gaps, strict=True)]
        for cells, gaps in zip(few.astype(object).to_numpy(), few.isna().to_numpy(), strict=True)
    ]
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
            {"line": lines[place], "log_likelihood": round(float(scores[place]), 2), "cells": cells}
            for place, cells in zip(order, shown, strict=True)
        ],
        "total": len(frame),
        "median": round(float(np.median(scores)), 2),
        "steps": flow.n_steps_,
        "notes": own,
    }


def _cell(value: object) -> str:
    """A cell as text.

    >>> _cell(1234567.8), _cell(2.0), _cell("a" * 80)[-2:]
    ('1234567.8', '2', 'a…')
    """
    text = f"{value:.12g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
