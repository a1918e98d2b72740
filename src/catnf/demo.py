"""A tour in minutes on a CPU: train, compare with the optimum, sample, and write the report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from catnf.errors import MissingDependencyError
from catnf.evaluation import Evaluation, EvaluationOptions, evaluate
from catnf.experiments import load_experiment
from catnf.fitted import FittedModel, bundled_names, load
from catnf.reporting.grid import Grid
from catnf.reporting.page import Section, paragraphs, picture, table
from catnf.reporting.report import ReportOptions, write_report
from catnf.training.options import RunOptions
from catnf.training.run import train

if TYPE_CHECKING:
    from catnf.molecules import SampledMolecule

SMALL = (
    "name=a small flow on sets of 6",
    "task.size=6",
    "model.channels=2",  # two channels can be drawn
    "model.layers=4",
    "model.hidden=64",
    "model.heads=2",
    "model.blocks=1",
    "training.batch=128",
    "training.steps=1500",
    "training.learning_rate=4e-3",
    "training.warmup=100",
    "training.average=0.99",
)
BUNDLED = "sets/shuffling/mixture"
MOLECULES = 128


def run_demo(output: Path, seconds: float) -> Path:
    """Run the tour, writing into `output`; training takes `seconds` at most."""
    console = Console(stderr=True)
    experiment = load_experiment(BUNDLED, SMALL)
    task = experiment.make_task()
    console.print(
        "[bold]1. Training[/] a small categorical flow to shuffle 6 categories: every set holds each of them "
        f"once, so that no model can need fewer than log2(6!)/6 = {task.optimum:.4f} bits per variable."
    )
    run = output / "run"
    train(experiment, RunOptions(run, device="cpu", budget=seconds, restart=True))
    fitted = load(run)
    measured = evaluate(fitted, EvaluationOptions(examples=256, samples=50, generated=1000))
    bits, best = measured.metrics["bits_per_variable"], measured.metrics["optimum"]
    console.print(
        f"   It needs [bold]{bits:.4f}[/] bits (importance-weighted, {measured.n['draws']} draws), "
        f"{bits - best:.4f} above the optimum; {measured.metrics['validity']:.1%} of its samples are valid."
    )
    samples = _bundled_samples(console)
    molecules = _molecules(console)
    _text(console)
    console.print(
        "[bold]5. Reporting[/] every table of the project, with pictures of what models learn and draw:"
    )
    page = output / "report.html"
    first = _section(fitted, measured, run / "loss.png", samples)
    options = ReportOptions(drawn=molecules, mixture=run, first=first)
    left_out = write_report(page, options, lambda text: console.print(f"   {text}"))
    for sentence in left_out:
        console.print(f"   Left out. {sentence}", markup=False)
    console.print(f"[bold]6. Look[/] at {escape(str(page.resolve()))}", soft_wrap=True)
    return page


def _bundled_samples(console: Console) -> list[list[int]]:
    if BUNDLED not in bundled_names():
        return []
    fitted = load(BUNDLED)
    drawn = fitted.sample(64, seed=0)
    valid = fitted.task.sample_metrics(drawn)["validity"]
    console.print(
        f"[bold]2. Sampling[/] 64 sets of 16 from the bundled {BUNDLED}: {valid:.1%} of them are exactly "
        f"valid, for instance\n   {' '.join(map(str, drawn[0].tolist()))}"
    )
    return drawn[:8].tolist()


def _molecules(console: Console) -> list[SampledMolecule]:
    """Molecules of the bundled model; none where RDKit is missing."""
    from catnf.molecules import DEFAULT_MODEL, sample_molecules

    try:
        drawn = sample_molecules(MOLECULES)
    except MissingDependencyError as missing:
        console.print(f"[bold]3. No molecules[/] without RDKit: {escape(str(missing))}")
        return []
    share = sum(molecule.valid for molecule in drawn) / len(drawn)
    example = next((one.smiles for one in drawn if one.valid), "none")
    console.print(
        f"[bold]3. Drawing[/] {MOLECULES} molecules from the bundled {DEFAULT_MODEL}: {share:.1%} of them "
        f"are valid, for instance\n   {escape(example)}"
    )
    return drawn


def _text(console: Console) -> None:
    from catnf.text import DEFAULT_MODEL, sample_texts

    (text,) = sample_texts(1, prompt="the history of", length=160, seed=0)
    console.print(f"[bold]4. Continuing[/] a text with the bundled {DEFAULT_MODEL}:\n   {text}")


def _section(fitted: FittedModel, measured: Evaluation, curve: Path, samples: list[list[int]]) -> Section:
    told = fitted.provenance
    rows = [[name, f"{value:.4f}"] for name, value in measured.metrics.items()]
    parts = [
        paragraphs(
            f"{fitted.experiment.name}: {told['steps']} steps in {told['seconds']} s on {told['hardware']}."
        ),
        table(Grid(["figure", "value"], rows)),
        picture(curve, "bits per variable against training steps"),
    ]
    if samples:
        drawn = "\n".join(" ".join(f"{value:2d}" for value in row) for row in samples)
        parts.append(f"<h3>Sets drawn from {BUNDLED}</h3><pre>{drawn}</pre>")
    return Section("demo", "Trained just now", "\n".join(parts))
