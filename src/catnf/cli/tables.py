"""Commands for tables: fit, report; and what sample and score do with a model of a table."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer
from numpy.typing import NDArray

from catnf.cli.base import AsJson, app, check_output, data, messages, stopping
from catnf.cli.numbers import a_seed, above_zero, within
from catnf.cli.progress import counting_bar, download_bars
from catnf.errors import InputError

if TYPE_CHECKING:
    from catnf.tabular import CategoricalFlow
    from catnf.tabular.schema import Column

_MOST_SHOWN = 20  # rows on the screen


@app.command()
def fit(
    file: Annotated[Path, typer.Argument(help="Table: .csv, .tsv or .parquet.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder, or file ending in .safetensors.")],
    categorical: Annotated[
        list[str] | None, typer.Option(help="A numeric column that is categorical; repeatable.")
    ] = None,
    missing: Annotated[
        Literal["category", "impute"], typer.Option(help="Gaps are a value, or cells not known.")
    ] = "category",
    rare: Annotated[int, typer.Option(help="Categories with fewer rows share one.", callback=within(1))] = 1,
    max_time: Annotated[
        float | None, typer.Option(help="Train for at most so many seconds.", callback=above_zero)
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Training steps; default: what suits the table.", callback=within(1))
    ] = None,
    seed: Annotated[int, typer.Option(help="Start of all randomness.", callback=a_seed)] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
    as_json: AsJson = False,
) -> None:
    """Learn the distribution of a table's rows."""
    from catnf.storage import make_folder
    from catnf.tabular import CategoricalFlow
    from catnf.tabular.frames import read_table

    if output.suffix == ".safetensors":
        check_output(output)
    frame = read_table(file)
    make_folder(output.parent if output.suffix == ".safetensors" else output)
    flow = CategoricalFlow(
        missing=missing,
        rare=rare,
        categorical=tuple(categorical or ()),
        max_steps=steps,
        max_seconds=max_time,
        random_state=seed,
    )
    with stopping("Stopped; nothing is written."), _warnings_told(), counting_bar(quiet) as progress:
        # It shows once the table was found fit to learn from.
        bar = progress.add_task("Fitting", total=None, visible=False)

        def show(step: int, total: int, bits: float | None) -> None:
            held = "" if bits is None else f", {bits:.3f} bits/column held out"
            progress.update(bar, completed=step, total=total, description=f"Fitting{held}", visible=True)

        flow.fit(frame, progress=show)
    _tell_fit(flow, flow.save(output), len(frame), as_json)


def _tell_fit(flow: CategoricalFlow, path: Path, rows: int, as_json: bool) -> None:
    held = flow.held_out_log_likelihood_
    if as_json:
        told = {
            "model": str(path),
            "rows": rows,
            "columns": flow.columns_,
            "steps": flow.n_steps_,
            "seconds": round(flow.fit_seconds_, 1),
            "held_out_log_likelihood": held,
        }
        print(json.dumps(told))
        return
    kinds = list(flow.columns_.values())
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    # There are none of few rows, and no look at them where time was up before.
    none = "nothing was measured on held-out rows"
    likely = none if held is None else f"held-out rows have {held:.3f} nats on average"
    columns = f"{counts} column{'s' * (len(kinds) > 1)}"
    messages.print(f"{rows:,} rows, {columns}: {flow.n_steps_} steps in {flow.fit_seconds_:.0f} s; {likely}.")
    print(path)


@app.command()
def report(
    model: Annotated[
        Path | None,
        typer.Argument(help="What `catnf fit` wrote; without it, the page is of the whole project."),
    ] = None,
    file: Annotated[
        Path | None, typer.Argument(help="Real rows, best others than were fitted: .csv, .tsv, .parquet.")
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="HTML file.")] = Path("report.html"),
    runs: Annotated[
        list[Path] | None,
        typer.Option(help="Of the whole project: folder of runs whose losses are drawn; repeatable."),
    ] = None,
    results: Annotated[
        Path | None, typer.Option(help="Of the whole project: folder of results; default: the package's.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Column to predict; default: the last categorical one.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the synthetic rows.", callback=a_seed)] = 0,
    as_json: AsJson = False,
) -> None:
    """Write a page that compares synthetic with real rows or, without a model, one of the whole project."""
    if output.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"The output is {output}; give a name that ends in .html.")
    check_output(output)
    if model is None:
        from catnf.cli.reproduction import project_report

        if target is not None:
            raise InputError(f"--target {target} is for a model of a table; give it, or leave --target out.")
        return project_report(output, runs or [], results, as_json)
    if file is None:
        raise InputError(f"A report on {model} needs real rows to compare with; give a table after it.")
    if runs or results:
        raise InputError("--runs and --results are for the page of the whole project; leave them out.")
    from catnf.storage import write_text
    from catnf.tabular import CategoricalFlow
    from catnf.tabular.frames import read_table
    from catnf.tabular.page import report_page
    from catnf.tabular.report import make_report

    flow = CategoricalFlow.load(model)
    frame = read_table(file)
    messages.print("Comparing synthetic with real rows ...")
    with _warnings_told():
        found, real, synthetic = make_report(flow, frame, target, seed)
    write_text(output, report_page(found, real, synthetic, flow.columns_, f"{model} and {file.name}"))
    if as_json:
        print(json.dumps({**found.summary(), "output": str(output)}))
        return
    for name, value in found.summary().items():
        if value is not None:
            messages.print(f"{name}: {_shown(value)}")
    print(output)


def _shown(value: object) -> str:
    """A figure, or several by their names, for people."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(one)}" for name, one in value.items())
    return f"{value:.4f}" if isinstance(value, float) else str(value)


@data.command("table")
def make_table(
    name: Annotated[Literal["credit"], typer.Argument(help="credit: the German credit data.")],
    as_json: AsJson = False,
) -> None:
    """Download a table that experiments learn, check it, and write it as CSV."""
    from catnf.tasks.table.sources import prepare_credit

    with download_bars() as show:
        path = prepare_credit(show)
    print(json.dumps({"name": name, "output": str(path)}) if as_json else path)


@dataclass(frozen=True)
class RowOptions:
    """What `catnf sample` was asked for."""

    count: int
    given: Sequence[str]  # conditions such as housing=own or age=20..30
    seed: int | None
    output: Path | None
    as_json: bool


def write_rows(model: str, options: RowOptions) -> None:
    """Draw rows of a table and write or print them."""
    from catnf.storage import write_bytes
    from catnf.tabular import CategoricalFlow
    from catnf.tabular.frames import check_table_name, table_bytes, to_pandas

    if options.output is not None:
        check_table_name(options.output)
        check_output(options.output)
    flow = CategoricalFlow.load(model)
    if options.seed is None:
        flow.set_params(random_state=None)
    given = _conditions(flow, options.given)
    with _warnings_told():
        drawn = flow.sample(options.count, given or None, options.seed)
    frame, _ = to_pandas(drawn, list(flow.columns_))
    if options.output is not None:
        write_bytes(options.output, table_bytes(frame, options.output))
    if options.as_json:
        told: dict[str, Any] = {"n": len(frame)}
        if options.output is None:
            told["samples"] = json.loads(frame.to_json(orient="records"))
        else:
            told["output"] = str(options.output)
        print(json.dumps(told))
    elif options.output is None:
        print(frame.to_csv(index=False), end="")
    else:
        messages.print(f"{options.output}: {len(frame):,} rows.")


def score_rows(model: str, file: Path, output: Path | None, samples: int, seed: int, as_json: bool) -> None:
    """Log-likelihoods of the rows of a table, the least likely first."""
    from catnf.storage import write_bytes
    from catnf.tabular import CategoricalFlow
    from catnf.tabular.frames import check_table_name, read_table, table_bytes

    if output is not None:
        check_table_name(output)
        check_output(output)
    flow = CategoricalFlow.load(model).set_params(draws=samples, random_state=seed)
    frame = read_table(file)
    with _warnings_told():
        parts = flow.score_parts(frame)
    mean = float(parts.sum(axis=1).mean())
    bits = -mean / math.log(2) / len(flow.columns_)
    scored, names = _ranked(frame, parts)
    if output is not None:
        write_bytes(output, table_bytes(scored, output))
    if as_json:
        told: dict[str, object] = {"scored": len(frame), "log_likelihood": mean, "bits_per_column": bits}
        if output is None:
            told["rows"] = json.loads(scored[names].to_json(orient="records"))
        else:
            told["output"] = str(output)
        print(json.dumps(told))
        return
    if output is None:
        print(scored.head(_MOST_SHOWN).to_csv(index=False), end="")
        if len(scored) > _MOST_SHOWN:
            messages.print(f"... and {len(scored) - _MOST_SHOWN:,} likelier rows; -o FILE writes all.")
    messages.print(f"{len(frame):,} rows scored: {mean:.4f} nats on average, {bits:.4f} bits a column.")


def _ranked(frame: Any, parts: NDArray[np.float64]) -> tuple[Any, list[str]]:
    """Rows behind their log-likelihoods, the least likely first, and the names of what is before them.

    Args:
        frame: the rows.
        parts: log-likelihoods of categories and of numbers, `[rows, 2]`.
    """
    import pandas as pd

    total = parts.sum(axis=1)
    scores = {
        "row": np.arange(len(frame)),
        "log_likelihood": total.round(4),
        "log_likelihood_categories": parts[:, 0].round(4),
        "log_likelihood_numbers": parts[:, 1].round(4),
    }
    # A column of the table may have such a name as well: it keeps it, and ours gives way.
    names = {name: name if name not in frame.columns else f"catnf_{name}" for name in scores}
    before = pd.DataFrame({names[name]: values for name, values in scores.items()}, index=frame.index)
    scored = pd.concat([before, frame], axis=1).iloc[np.argsort(total, kind="stable")]
    return scored, list(names.values())


def _conditions(flow: CategoricalFlow, given: Sequence[str]) -> dict[str, Any]:
    """`housing=own` and `age=20..30` as the estimator takes them."""
    columns = {column.name: column for column in flow.table_.code.columns}
    out: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"The condition {text!r} cannot be read; write it as column=value.")
        column = columns.get(name)
        low, dots, high = value.partition("..")
        if column is not None and column.numeric and dots:
            try:
                out[name] = (float(low), float(high))
            except ValueError as error:
                raise InputError(
                    f"The range {value!r} of {name!r} cannot be read; write it as 20..30."
                ) from error
        else:
            out[name] = value if column is None else _label(column, value)
    return out


def _label(column: Column, text: str) -> Any:
    """The value of a column that is written as `text`."""
    for label in (*column.labels, *column.pooled):
        if str(label) == text:
            return label
    if column.numeric:
        try:
            return float(text)
        except ValueError:
            return text
    return text


@contextmanager
def _warnings_told() -> Iterator[None]:
    """Warnings as sentences for people."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for warning in dict.fromkeys(str(warning.message) for warning in caught):
        messages.print(warning)
