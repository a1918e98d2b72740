"""The paper's tables with our figures beside its own: those measured earlier, and those measured here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from catnf.reference import Paper, PaperRow, Result, Results
from catnf.reporting.blocks import Block, Figure
from catnf.reporting.grid import NOT_MEASURED, Grid


@dataclass(frozen=True)
class Measured:
    """A figure of ours.

    Attributes:
        value: the figure, a mean where there are several seeds.
        interval: 95 % over examples.
        n: examples behind it, the fewest of its seeds.
        n_most: the most of them.
        seeds: how many models were trained.
        trained_on: the hardware that trained it.
        trained_seconds: the longest training.
        hardware: that measured it.
        seconds: that measuring took.
    """

    value: float
    interval: tuple[float, float] | None
    n: int | None
    n_most: int | None
    seeds: int
    trained_on: str | None
    trained_seconds: float | None
    hardware: str | None
    seconds: float | None


@dataclass(frozen=True)
class Line:
    """One figure of one model: the paper's, ours, and what was measured here."""

    experiment: str | None  # None for a row of the paper that is no experiment of ours
    model: str
    figure: Figure
    paper: float | None
    paper_spread: float | None
    ours: Measured | None
    here: Measured | None


@dataclass(frozen=True)
class Here:
    """What was measured just now.

    Attributes:
        results: by experiment.
        why: reasons why an experiment, or a part of it, was not measured.
        notes: sentences on how it was measured.
        trained: whether the models were trained here, too.
    """

    results: Results = field(default_factory=Results)
    why: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    trained: bool = False


def compare(
    block: Block, names: Sequence[str], paper: Paper, ours: Results, here: Results, others: bool = True
) -> list[Line]:
    """All lines of a block; figures that neither the paper nor we have are left out.

    Args:
        block: the data set.
        names: experiments.
        paper: the paper's figures.
        ours: results measured earlier.
        here: and just now.
        others: whether to end with those rows of the paper that are no experiments of ours.
    """
    lines = []
    for name in names:
        row = paper.rows.get(name)
        model = name.rsplit("/", 1)[1]
        lines += _lines(block, name, block.models.get(model, model), row, ours.get(name), here.get(name))
    for row in paper.others.get(block.data, ()) if others else ():
        lines += _lines(block, None, f"{row.name} (the paper's)", row, None, None)
    return lines


def _lines(
    block: Block, name: str | None, model: str, row: PaperRow | None, ours: Result | None, here: Result | None
) -> list[Line]:
    metrics: Mapping[str, float] = {} if row is None else row.metrics
    spread: Mapping[str, float] = {} if row is None else row.spread
    lines = [
        Line(
            name,
            model,
            figure,
            metrics.get(figure.metric),
            spread.get(figure.metric),
            measured(ours, figure.metric),
            measured(here, figure.metric),
        )
        for figure in block.figures
    ]
    some = [line for line in lines if (line.paper, line.ours, line.here) != (None,) * 3]
    return some or lines[:1]


def measured(result: Result | None, metric: str) -> Measured | None:
    """A metric of a result with all that belongs to it."""
    if result is None or metric not in result.get("metrics", {}):
        return None
    ends = result.get("intervals", {}).get(metric)
    everyone = result.get("runs", [result])
    runs = [run["training"] for run in everyone if run.get("training")]
    counts = [run["n"][metric] for run in (*everyone, result) if metric in run.get("n", {})]
    seconds = [float(run["seconds"]) for run in runs if run.get("seconds") is not None]
    return Measured(
        float(result["metrics"][metric]),
        None if ends is None else (float(ends[0]), float(ends[1])),
        min(counts, default=None),
        max(counts, default=None),
        len(result.get("seeds", ())),
        str(runs[-1]["hardware"]) if runs and "hardware" in runs[-1] else None,
        max(seconds, default=None),
        result.get("hardware"),
        result.get("seconds"),
    )


def grid(block: Block, lines: Sequence[Line], paper: Paper, ours: Results, here: Here) -> Grid:
    """A block as a table of the lines that `compare` gave."""
    head = ["model", "figure", "paper", "ours", "n", "trained", "here", "n here", "time here"]
    shown = head if any(line.here for line in lines) else head[:6]
    rows, before = [], ""
    for line in lines:
        first = line.model != before
        row = [line.model if first else "", line.figure.words, _paper(line), _value(line.figure, line.ours)]
        row += [_count(line.ours), _trained(line.ours) if first else ""]
        row += [
            _value(line.figure, line.here),
            _count(line.here),
            _spent(line.here, here.trained) if first else "",
        ]
        rows.append(row[: len(shown)])
        before = line.model
    told = _places(block, lines, paper)
    best = _optimum(block, ours)
    if best is not None:
        told.append(f"No model can need fewer than {best:.4f} bits per variable.")
    names = {line.experiment for line in lines}
    why = [reason for name, reason in here.why.items() if name in names]
    other = [] if here.trained else _other_trainings(names, ours, here.results)
    return Grid(shown, rows, block.title, [*told, *here.notes, *why, *other])


def _other_trainings(names: Iterable[str | None], ours: Results, here: Results) -> list[str]:
    """A sentence for every model measured here that is none of those behind our figure."""

    def training(run: Result) -> tuple[object, ...]:
        told = run.get("training", {})
        return tuple(told.get(key) for key in ("steps", "seconds", "revision"))

    both = sorted(name for name in names if name is not None and name in ours and name in here)
    return [
        f"The bundled {name} is of another training than our figure."
        for name in both
        if training(here[name]) not in [training(run) for run in ours[name].get("runs", [])]
    ]


def _places(block: Block, lines: Sequence[Line], paper: Paper) -> list[str]:
    """Where in the paper its figures are."""
    names = [line.experiment for line in lines if line.experiment]
    places = {paper.rows[name].table for name in names if name in paper.rows}
    if any(line.experiment is None for line in lines):
        places |= {row.table for row in paper.others[block.data]}
    if places:
        return [f"Paper: {'; '.join(sorted(places))}."]
    known = any(name.rsplit("/", 1)[0] == block.data for name in paper.rows)
    return [] if known else ["The paper has no such data."]


def _optimum(block: Block, ours: Results) -> float | None:
    """The exact entropy of the data, where results tell it."""
    found = [ours[name].get("metrics", {}).get("optimum") for name in ours.below(block.data)]
    return next((value for value in found if value is not None), None)


def _paper(line: Line) -> str:
    if line.paper is None:
        return "–"
    return line.figure.written(line.paper, line.paper_spread, 2)


def _value(figure: Figure, found: Measured | None) -> str:
    if found is None:
        return NOT_MEASURED
    half = None if found.interval is None else (found.interval[1] - found.interval[0]) / 2
    return figure.written(found.value, half)


def _count(found: Measured | None) -> str:
    if found is None:
        return ""
    number = "" if found.n is None else f"{found.n:,}"
    if found.n_most != found.n:
        number += f" to {found.n_most:,}"
    return f"{number}, {found.seeds} seeds" if found.seeds > 1 else number


def _trained(found: Measured | None) -> str:
    if found is None or found.trained_seconds is None:
        return ""
    return f"{found.trained_seconds:,.0f} s, {found.trained_on or 'unknown hardware'}"


def _spent(found: Measured | None, trained: bool) -> str:
    """Seconds that measuring took, behind those of training where that was here."""
    if found is None or found.seconds is None:
        return ""
    before = f"{found.trained_seconds:,.0f} s + " if trained and found.trained_seconds is not None else ""
    return f"{before}{found.seconds:,.0f} s"
