"""Commands for any model: train, sample, export, list, bench, demo."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import torch
import typer

from catnf.cli.base import (
    AsJson,
    Device,
    Overrides,
    app,
    check_lines_name,
    check_output,
    chosen_device,
    is_helper,
    is_launched_helper,
    messages,
    typed_command,
)
from catnf.cli.numbers import a_seed, above_zero, within
from catnf.errors import InputError

if TYPE_CHECKING:
    from catnf.training.options import RunSummary


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List experiments and bundled models."""
    from catnf.experiments import experiment_names
    from catnf.fitted import bundled_names

    bundled = set(bundled_names())
    if as_json:
        print(json.dumps({"experiments": experiment_names(), "bundled": sorted(bundled)}))
        return
    for name in experiment_names():
        print(f"{name}  (bundled)" if name in bundled else name)


@app.command()
def train(
    name: Annotated[
        str,
        typer.Argument(
            help="An experiment's name (see `catnf list`), a YAML file, molecules, with --smiles, or text, "
            "with --text."
        ),
    ],
    overrides: Overrides = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Folder of the run.")] = None,
    smiles: Annotated[
        Path | None, typer.Option(help="Molecules of your own to learn from: .smi, .txt, .csv, .tsv.")
    ] = None,
    vocabulary: Annotated[
        Literal["neutral", "charged"] | None,
        typer.Option(help="Of --smiles, as in `catnf data molecules`; default: neutral."),
    ] = None,
    column: Annotated[str | None, typer.Option(help="Of a table of --smiles.")] = None,
    text: Annotated[Path | None, typer.Option(help="A UTF-8 text of your own to learn from.")] = None,
    level: Annotated[
        Literal["characters", "words"] | None,
        typer.Option(help="Of --text; default: as in the experiment, characters for text."),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(
            help="Symbols of --text to keep; default: 256 characters, 10,000 words.",
            callback=within(2, 32_767),
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Start of all randomness.", callback=a_seed)] = 0,
    device: Device = "auto",
    devices: Annotated[
        int, typer.Option(help="Processes on a machine, one per device.", callback=within(1, 64))
    ] = 1,
    nodes: Annotated[int, typer.Option(help="Machines.", callback=within(1, 10_000))] = 1,
    max_time: Annotated[
        float | None, typer.Option(help="Stop after so many seconds; resumable.", callback=within(0))
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(help="Fit the whole learning-rate schedule into so many seconds.", callback=above_zero),
    ] = None,
    precision: Annotated[
        Literal["auto", "float32", "bfloat16"], typer.Option(help="Of the networks.")
    ] = "auto",
    restart: Annotated[bool, typer.Option("--restart", help="Forget an earlier run.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
    turn: Annotated[
        Path | None,
        typer.Option(help="File to lock while steps are made, so that others get ready meanwhile."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train an experiment, or go on with one that was stopped."""
    from catnf.experiments import load_experiment
    from catnf.training.options import RunOptions
    from catnf.training.run import train as run

    silent = quiet or is_launched_helper()
    own: list[str] = []
    if smiles is not None and text is not None:
        raise InputError("--smiles and --text are both given; leave one of them out.")
    if smiles is not None or vocabulary is not None or column is not None or name == "molecules":
        from catnf.cli.molecules import own_molecules

        name, own = own_molecules(name, smiles, vocabulary or "neutral", column, silent)
    if text is not None or level is not None or size is not None or name == "text":
        from catnf.cli.text import own_text

        name, own = own_text(name, text, level, size, silent)
    experiment = load_experiment(name, [*own, *(overrides or ())])
    folder = output or Path("runs") / experiment.name / f"seed-{seed}"
    where = (device, devices, nodes)
    how_long = (max_time, budget)
    options = RunOptions(folder, seed, *where, *how_long, precision, restart=restart, quiet=quiet, turn=turn)
    summary = run(experiment, options)
    if is_helper():
        return
    if as_json:
        print(json.dumps({**asdict(summary), "folder": str(summary.folder)}))
        return
    _tell_end(summary, experiment.training.warmup, restart)


def _tell_end(summary: RunSummary, warmup: int, restart: bool) -> None:
    messages.print(f"{summary.step} of {summary.steps} steps in {summary.seconds:.0f} s: {summary.folder}")
    if summary.finished and summary.step < warmup:
        messages.print(
            f"Learning rates were still rising, for {warmup} steps; give a longer "
            f"--budget, or --set training.warmup={max(1, summary.step // 10)}."
        )
    if not summary.finished:
        again = "the same command without --restart" if restart else "the same command"
        messages.print(f"Stopped early; {again} goes on from here.")


@app.command()
def sample(
    name: Annotated[str, typer.Argument(help="A bundled model's name, a run's folder, or a model file.")],
    count: Annotated[int, typer.Option("-n", "--number", help="How many.", callback=within(1))] = 10,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="File instead of the screen: .csv, of texts .txt, of tables also .tsv or .parquet.",
        ),
    ] = None,
    grid: Annotated[
        Path | None, typer.Option(help="PNG file to draw the first molecules or colorings into.")
    ] = None,
    graphs: Annotated[
        Path | None,
        typer.Option(help="Instead, .npz file of molecules as plain graphs, which needs no RDKit."),
    ] = None,
    temperature: Annotated[
        float, typer.Option(help="1 is the model itself, less is safer.", callback=above_zero)
    ] = 1.0,
    largest: Annotated[
        bool, typer.Option("--largest", help="Of molecules the largest connected fragment.")
    ] = False,
    valid_only: Annotated[
        bool,
        typer.Option("--valid-only", help="Of molecules those only that are valid, as many as asked for."),
    ] = False,
    given: Annotated[
        list[str] | None,
        typer.Option(help="Of tables: a column's value, e.g. housing=own, or range, age=20..30; repeatable."),
    ] = None,
    prompt: Annotated[str | None, typer.Option(help="Of text: how it starts.")] = None,
    length: Annotated[
        int | None,
        typer.Option(
            help="Of text: symbols, the prompt's among them; default: a window.", callback=within(1, 100_000)
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="For the same samples again.", callback=a_seed)] = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Draw examples from a trained model."""
    from catnf.cli.sampling import (
        Outputs,
        check_outputs,
        check_plain_options,
        check_table_options,
        write_molecules,
        write_samples,
    )
    from catnf.fitted import is_table_model, load
    from catnf.sampling import SamplingOptions
    from catnf.tasks.molecules import Molecules
    from catnf.tasks.text import Text

    outputs = Outputs(output, grid, as_json, graphs)
    check_outputs(outputs, largest or valid_only)
    if is_table_model(name):
        from catnf.cli.tables import RowOptions, write_rows

        texts = {"--prompt": prompt is not None, "--length": length is not None}
        molecules = {"--largest": largest, "--valid-only": valid_only}
        check_table_options(name, texts | molecules, outputs, temperature)
        return write_rows(name, RowOptions(count, given or (), seed, output, as_json))
    if given:
        raise InputError(f"--given is for models that `catnf fit` made, but {name} is none; leave it out.")
    fitted = load(name, chosen_device(device))
    check_lines_name(output, isinstance(fitted.task, Text))
    if not isinstance(fitted.task, Text) and (prompt is not None or length is not None):
        raise InputError(f"--prompt and --length are for text, which {name} does not write; leave them out.")
    if isinstance(fitted.task, Molecules):
        wanted = SamplingOptions(count, seed, temperature, largest, valid_only)
        return write_molecules(fitted, wanted, outputs)
    check_plain_options(fitted, largest, valid_only, outputs)
    if isinstance(fitted.task, Text):
        from catnf.cli.text import print_texts
        from catnf.text import TextOptions

        options = TextOptions(count, prompt, length, temperature, seed)
        return print_texts(fitted, options, output, as_json)
    write_samples(fitted, count, seed, temperature, outputs)


@app.command()
def export(
    name: Annotated[str, typer.Argument(help="A run's folder, a model file, or a bundled model's name.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="File ending in .safetensors.")],
    dtype: Annotated[
        Literal["float32", "bfloat16"], typer.Option(help="Of the stored weights.")
    ] = "bfloat16",
    shard_mb: Annotated[
        float | None, typer.Option(help="Largest size of a file in MB.", callback=above_zero)
    ] = None,
) -> None:
    """Write a trained model's weights, smaller and in pieces where asked."""
    from catnf.fitted import load, save_model

    check_output(output)
    fitted = load(name)
    weights = fitted.model.state_dict()
    stored = torch.bfloat16 if dtype == "bfloat16" else None
    limit = None if shard_mb is None else max(1, int(shard_mb * 1e6))
    files = save_model(output, weights, fitted.experiment, fitted.seed, fitted.provenance, stored, limit)
    for file in files:
        print(file)


@app.command()
def bench(
    name: Annotated[
        str, typer.Argument(help="An experiment's name or a YAML file.")
    ] = "sets/shuffling/mixture",
    batch: Annotated[int | None, typer.Option(help="Examples at once.", callback=within(1))] = None,
    overrides: Overrides = None,
    repeats: Annotated[int, typer.Option(help="Measurements behind a median.", callback=within(1))] = 30,
    step_only: Annotated[bool, typer.Option("--step-only", help="Measure the training step alone.")] = False,
    turn: Annotated[
        Path | None,
        typer.Option(help="File to lock while timing, so that several of these may compile at once."),
    ] = None,
    device: Device = "auto",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="JSON file to write.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure training step, likelihood and sampling in milliseconds."""
    from catnf.bench import bench as measure
    from catnf.experiments import load_experiment
    from catnf.results import record_speed
    from catnf.storage import write_text

    check_output(output)
    experiment = load_experiment(name, overrides or ())
    where = chosen_device(device)
    size = batch if batch is not None else (1024 if where.type == "cuda" else 64)
    speeds = measure(experiment, size, where, repeats, step_only, turn)
    outcome = record_speed(experiment, speeds, size, where, typed_command())
    if output is not None:
        write_text(output, json.dumps(outcome, indent=2) + "\n")
    if as_json:
        print(json.dumps(outcome))
        return
    for metric, value in speeds.items():
        print(f"{metric:15} {value:9.2f}   (batch {size})")


@app.command()
def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the page.")] = Path(
        "demo-output"
    ),
    seconds: Annotated[float, typer.Option(help="Time to train.", callback=above_zero)] = 60.0,
) -> None:
    """Train a small flow, compare it with the exact optimum, sample, and write the report."""
    from catnf.demo import run_demo

    run_demo(output, seconds)
