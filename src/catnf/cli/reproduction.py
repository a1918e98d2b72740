"""The command that puts our figures beside the paper's."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from catnf.cli.base import (
    AsJson,
    Device,
    Overrides,
    app,
    chosen_device,
    messages,
    stopping,
    typed_command,
)
from catnf.cli.numbers import above_zero, within
from catnf.errors import InputError

if TYPE_CHECKING:
    from catnf.reference import Paper, Results
    from catnf.reporting.grid import Grid
    from catnf.reporting.measuring import Findings, MeasuringOptions, TrainingPlan
    from catnf.reporting.reproduction import Line

TableName = Literal["sets", "coloring", "molecules", "text", "credit", "all"]


@app.command()
def reproduce(
    table: Annotated[TableName, typer.Argument(help="Which of the paper's tables.")],
    training: Annotated[
        bool, typer.Option("--train", help="Train every model from scratch instead of taking bundled ones.")
    ] = False,
    budget: Annotated[
        float | None,
        typer.Option(help="With --train: seconds a model; default: all its steps.", callback=above_zero),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="With --train: trainings a model; default: 1.", callback=within(1))
    ] = None,
    overrides: Overrides = None,
    only: Annotated[
        list[str] | None, typer.Option(help="A model, e.g. mixture or sets/shuffling/mixture; repeatable.")
    ] = None,
    stored: Annotated[
        bool, typer.Option("--stored", help="Only figures measured earlier; nothing is measured here.")
    ] = False,
    examples: Annotated[
        int, typer.Option(help="Test examples that are scored here.", callback=within(1))
    ] = 64,
    samples: Annotated[
        int | None,
        typer.Option(help="Draws of the bound; default: 20 on sets and tables, else 4.", callback=within(1)),
    ] = None,
    generated: Annotated[int, typer.Option(help="Samples that are drawn here.", callback=within(0))] = 256,
    runs: Annotated[Path | None, typer.Option(help="With --train: folder; default: runs/reproduce.")] = None,
    results: Annotated[
        Path | None, typer.Option(help="Folder of our results; default: those inside the package.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for TABLE.md and TABLE.html.")
    ] = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Print a table of the paper with our figures beside it, measured earlier and here."""
    from catnf.experiments import experiment_names
    from catnf.fitted import bundled_names
    from catnf.reference import load_paper
    from catnf.reporting.blocks import BLOCKS, experiments
    from catnf.reporting.reproduction import Here, compare, grid
    from catnf.storage import make_folder

    _check_options(training, stored, budget, seeds, overrides, runs)
    paper, ours = load_paper(), _stored(results)
    blocks = [block for name, some in BLOCKS.items() if table in (name, "all") for block in some]
    known = [*experiment_names(), *ours]
    names = {block.data: _chosen(experiments(block, known, paper), only) for block in blocks}
    wanted = [name for some in names.values() for name in some]
    if not wanted:
        raise InputError(f"{', '.join(only or ())} is no model of {table}; see `catnf list`.")
    if output is not None:
        make_folder(output)
    options, plan = _options(examples, samples, generated, device, budget, seeds, overrides, runs)
    if training:
        trainable = [name for name in wanted if name in experiment_names()]
        found = _train(trainable, options, plan)
    else:
        bundled = [] if stored else [name for name in wanted if name in bundled_names()]
        found = _measure(bundled, options)
    grids, told = [], []
    for block in blocks:
        if not names[block.data]:
            continue
        lines = compare(block, names[block.data], paper, ours, found.results, others=not only)
        notes = _notes(lines, options, plan if training else None)
        here = Here(found.results, found.why, notes, training)
        grids.append(grid(block, lines, paper, ours, here))
        told += [asdict(line) for line in lines]
    if as_json:
        print(json.dumps({"table": table, "paper": paper.source, "lines": told, "why": found.why}))
    else:
        _show(grids)
    if output is not None:
        _write_pages(output, table, paper, grids)


def project_report(output: Path, runs: list[Path], results: Path | None, as_json: bool) -> None:
    """Write the page of the whole project."""
    from catnf.reporting.report import ReportOptions, write_report

    options = ReportOptions(_stored(results), runs=runs)
    left_out = write_report(output, options, messages.print)
    for sentence in left_out:
        messages.print(f"Left out. {sentence}")
    print(json.dumps({"output": str(output), "left_out": left_out}) if as_json else output)


def _stored(folder: Path | None) -> Results:
    from catnf.reference import Results

    if folder is None:
        return Results.bundled()
    if not folder.is_dir():
        raise InputError(f"There is no folder {folder}; give one of results, or leave --results out.")
    return Results.of_folder(folder)


def _check_options(
    training: bool,
    stored: bool,
    budget: float | None,
    seeds: int | None,
    overrides: list[str] | None,
    runs: Path | None,
) -> None:
    if training and stored:
        raise InputError("--train measures and --stored does not; leave one of them out.")
    given = {"--budget": budget, "--seeds": seeds, "--set": overrides or None, "--runs": runs}
    for option, value in given.items():
        if value is not None and not training:
            raise InputError(f"{option} is for trainings; give --train too, or leave it out.")


def _chosen(names: list[str], only: list[str] | None) -> list[str]:
    if not only:
        return names
    return [name for name in names if name in only or name.rsplit("/", 1)[1] in only]


def _options(
    examples: int,
    samples: int | None,
    generated: int,
    device: str,
    budget: float | None,
    seeds: int | None,
    overrides: list[str] | None,
    runs: Path | None,
) -> tuple[MeasuringOptions, TrainingPlan]:
    from catnf.reporting.measuring import MeasuringOptions, TrainingPlan

    options = MeasuringOptions(examples, samples, generated, chosen_device(device))
    options.of("sets")  # refuses numbers that mean nothing before any work
    folder = runs if runs is not None else Path("runs/reproduce")
    return options, TrainingPlan(folder, budget, 1 if seeds is None else seeds, overrides or ())


def _measure(names: list[str], options: MeasuringOptions) -> Findings:
    from catnf.reporting.measuring import measure_bundled

    return measure_bundled(names, options, typed_command(), messages.print)


def _train(names: list[str], options: MeasuringOptions, plan: TrainingPlan) -> Findings:
    from catnf.reporting.measuring import measure_trained

    with stopping("Stopped; the same command goes on from here."):
        return measure_trained(names, options, plan, typed_command(), messages.print)


def _notes(lines: list[Line], options: MeasuringOptions, plan: TrainingPlan | None) -> list[str]:
    from catnf.provenance import hardware

    if not any(line.here or line.ours for line in lines):
        return []
    notes = ["± is the paper's standard deviation over seeds, and half of our 95 % interval over examples."]
    here = next((line.experiment for line in lines if line.here and line.experiment), None)
    if here is None:
        return notes
    told = f"Here: test data, {options.of(here).samples} draws of the bound, on {hardware(options.device)}"
    if plan is not None:
        time = "all steps" if plan.budget is None else f"{plan.budget:g} s"
        changed = f", with {' '.join(plan.overrides)}" if plan.overrides else ""
        told += f"; trained from scratch for {time}{changed}"
    return [*notes, f"{told}. Draws of ours are in results/; more of them make the bound tighter."]


def _write_pages(folder: Path, table: TableName, paper: Paper, grids: list[Grid]) -> None:
    from catnf.reporting.grid import markdown_page
    from catnf.reporting.page import tables_page
    from catnf.storage import write_text

    title = f"The paper's tables: {table}" if table != "all" else "The paper's tables"
    write_text(folder / f"{table}.md", markdown_page(title, grids))
    write_text(folder / f"{table}.html", tables_page(title, paper.source, grids))
    messages.print(f"{folder / f'{table}.md'} and {folder / f'{table}.html'} are written.")


def _show(grids: list[Grid]) -> None:
    if not sys.stdout.isatty():
        for grid in grids:
            print(f"## {grid.title}\n\n{grid.markdown()}\n")
            print("".join(f"{note}\n" for note in grid.notes))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    for grid in grids:
        shown = Table(title=grid.title, title_justify="left")
        for place, head in enumerate(grid.head):
            shown.add_column(head, justify="left" if place < 2 else "right")
        for row in grid.rows:
            shown.add_row(*row)
        console.print(shown)
        for note in grid.notes:
            console.print(note, markup=False)
        console.print()
