"""The command that measures a trained model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from catnf.cli.base import AsJson, Device, app, chosen_device, messages, typed_command
from catnf.cli.numbers import a_seed, above_zero, within
from catnf.cli.progress import counting_bar, named_bars
from catnf.errors import InputError

if TYPE_CHECKING:
    from catnf.evaluation import Evaluation, EvaluationOptions
    from catnf.fitted import FittedModel

_EXAMPLES = 512


@app.command()
def evaluate(
    name: Annotated[str, typer.Argument(help="A bundled model's name, a run's folder, or a model file.")],
    samples: Annotated[
        int | None,
        typer.Option(
            help="Draws of the importance-weighted bound; default: 100, of texts 4.", callback=within(1)
        ),
    ] = None,
    examples: Annotated[
        int | None, typer.Option(help=f"Examples that are scored; default: {_EXAMPLES}.", callback=within(1))
    ] = None,
    generated: Annotated[
        int | None,
        typer.Option(
            help="Samples that are drawn and measured; default: 10,000, of texts 200.", callback=within(0)
        ),
    ] = None,
    reconstructed: Annotated[
        int | None,
        typer.Option(
            help="Of the scored examples, those that go to latents and back; default: 2,048, of texts 64.",
            callback=within(1),
        ),
    ] = None,
    split: Annotated[Literal["validation", "test"], typer.Option()] = "validation",
    temperature: Annotated[
        float | None, typer.Option(help="Of the samples; default: 1.", callback=above_zero)
    ] = None,
    seed: Annotated[int, typer.Option(callback=a_seed)] = 0,
    sampled: Annotated[
        list[Path] | None,
        typer.Option(help="Molecules of `catnf sample --graphs` to measure instead of new ones; repeatable."),
    ] = None,
    likelihood: Annotated[
        Path | None,
        typer.Option(help="What `catnf evaluate --generated 0 --json` printed, instead of scoring again."),
    ] = None,
    precision: Annotated[
        Literal["float32", "bfloat16"],
        typer.Option(help="Of the networks that score; bfloat16 is meant for GPUs."),
    ] = "float32",
    device: Device = "auto",
    results: Annotated[Path | None, typer.Option(help="Folder to write <name>.json into.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure a trained model on held-out data, and its samples."""
    from catnf.cli.molecules import need_rdkit
    from catnf.evaluation import EvaluationOptions
    from catnf.fitted import load
    from catnf.results import check_result, record
    from catnf.storage import make_folder
    from catnf.tasks.molecules import Molecules

    if sampled:
        _refuse("--sampled brings samples", {"--generated": generated, "--temperature": temperature})
    if likelihood is not None:
        low = precision if precision != "float32" else None
        scoring = {"--examples": examples, "--samples": samples, "--precision": low}
        _refuse("--likelihood brings figures", scoring | {"--reconstructed": reconstructed})
    fitted = load(name, chosen_device(device))
    usual = fitted.task.amounts
    options = EvaluationOptions(
        split,
        _EXAMPLES if examples is None else examples,
        usual.draws if samples is None else samples,
        usual.generated if generated is None else generated,
        usual.reconstructed if reconstructed is None else reconstructed,
        temperature=1.0 if temperature is None else temperature,
        seed=seed,
        precision=precision,
    )
    if (options.generated or sampled) and isinstance(fitted.task, Molecules):
        need_rdkit("measure the likelihood only, with --generated 0")
    if results is not None:
        make_folder(results)
        check_result(results, fitted, split)
    evaluation, parts = _measure(fitted, options, sampled, likelihood)
    outcome = record(fitted, evaluation, typed_command(), parts)
    _give(outcome, fitted, evaluation, results, as_json)


def _measure(
    fitted: FittedModel, options: EvaluationOptions, sampled: list[Path] | None, likelihood: Path | None
) -> tuple[Evaluation, dict[str, dict[str, object]]]:
    """What is measured here or brought along, and where the latter comes from."""
    from catnf.evaluation import evaluate_likelihood, evaluate_samples, with_optimum
    from catnf.results import read_likelihood
    from catnf.sampling import SampledGraphs
    from catnf.tasks.cores import available_cores

    parts: dict[str, dict[str, object]] = {}
    drawn = None
    if sampled:
        graphs = SampledGraphs.load(sampled, fitted)
        drawn, parts["samples"] = graphs.tensors(fitted), dict(graphs.about)
    if likelihood is not None:
        evaluation, parts["likelihood"] = read_likelihood(likelihood, fitted, options.split)
    messages.print(_announcement(options, likelihood is None, drawn and drawn[1].batch, fitted.device.type))
    with named_bars(counting_bar()) as progress:
        if likelihood is None:
            evaluation = evaluate_likelihood(fitted, options, progress)
        if drawn or options.generated:
            more = evaluate_samples(fitted, options, drawn, available_cores(), progress)
            evaluation = evaluation.joined(more)
    return with_optimum(evaluation, fitted), parts


def _refuse(why: str, options: Mapping[str, object]) -> None:
    """Refuse options that were given, since what they ask for is brought along."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise InputError(f"{why} of its own; leave out {' and '.join(given)}.")


def _give(
    outcome: dict[str, object],
    fitted: FittedModel,
    evaluation: Evaluation,
    results: Path | None,
    as_json: bool,
) -> None:
    """Show what was measured, and write it into a folder of results where there is one."""
    from catnf.results import write_result

    for note in evaluation.notes:
        messages.print(note)
    # What cannot be written is still shown, and what nobody reads, as behind a closed pipe, is still written.
    try:
        if as_json:
            print(json.dumps(outcome), flush=True)
        else:
            _show(fitted.experiment.name, evaluation)
    finally:
        if results is not None:
            write_result(results, fitted.experiment.name, outcome, fitted.seed)


def _announcement(options: EvaluationOptions, scored: bool, brought: int | None, device: str) -> str:
    """What is about to happen, which may take minutes.

    Args:
        options: how many examples, draws and samples.
        scored: whether examples are.
        brought: samples that are measured instead of new ones, if any.
        device: where.
    """
    work = [f"scoring {options.examples} examples with {options.samples} draws each"] if scored else []
    if brought:
        work.append(f"measuring {brought} samples")
    elif options.generated:
        work.append(f"drawing {options.generated} samples")
    told = " and ".join(work) or "nothing to do"
    return f"{told[0].upper()}{told[1:]} on {device} ..."


def _show(name: str, evaluation: Evaluation) -> None:
    table = Table(title=name, title_justify="left")
    for column in ("metric", "value", "95 % interval", "n"):
        table.add_column(column, justify="left" if column == "metric" else "right")
    for metric, value in evaluation.metrics.items():
        interval = evaluation.intervals.get(metric)
        shown = "" if interval is None else f"{interval[0]:.4f} – {interval[1]:.4f}"
        table.add_row(metric, f"{value:.4f}", shown, str(evaluation.n.get(metric, "")))
    Console().print(table)
