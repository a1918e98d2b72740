"""A tour in two minutes on a CPU: train, compare with the optimum, sample, and write a page."""

from __future__ import annotations

import base64
import html
from pathlib import Path

from rich.console import Console

from catnf.drawing import encoding_picture
from catnf.errors import MissingDependencyError
from catnf.evaluation import Evaluation, EvaluationOptions, evaluate
from catnf.experiments import load_experiment
from catnf.fitted import FittedModel, bundled_names, load
from catnf.models import CategoricalFlow
from catnf.storage import write_text
from catnf.training.run import RunOptions, train

SMALL = (
    "name=a small flow on sets of 6",
    "task.size=6",
    "model.channels=2",  # two channels can be drawn
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
MOLECULES = 40


def run_demo(output: Path, seconds: float) -> Path:
    """Run the tour, writing into `output`; training stops after `seconds` at the latest."""
    console = Console(stderr=True)
    experiment = load_experiment(BUNDLED, SMALL)
    task = experiment.make_task()
    console.print(
        "[bold]1. Training[/] a small categorical flow to shuffle 6 categories: every set holds each of them "
        f"once, so that no model can need fewer than log2(6!)/6 = {task.optimum:.4f} bits per variable."
    )
    run = output / "run"
    train(experiment, RunOptions(run, device="cpu", max_time=seconds, restart=True))
    fitted = load(run)
    measured = evaluate(fitted, EvaluationOptions(examples=256, samples=100, generated=1000))
    bits, best = measured.metrics["bits_per_variable"], measured.metrics["optimum"]
    console.print(
        f"   It needs [bold]{bits:.4f}[/] bits (importance-weighted, {measured.n['draws']} draws), "
        f"{bits - best:.4f} above the optimum; {measured.metrics['validity']:.1%} of its samples are valid."
    )
    samples = _bundled_samples(console)
    grid = _molecules(console, output / "molecules.png")
    assert isinstance(fitted.model, CategoricalFlow)
    picture = encoding_picture(output / "encoding.png", fitted.model.encoding)
    page = output / "index.html"
    write_text(page, _page(fitted, measured, run / "loss.png", picture, samples, grid))
    console.print(
        f"[bold]4. Look[/] at the loss curve, the learned encoding and what was drawn: {page.resolve()}",
        soft_wrap=True,
    )
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


def _molecules(console: Console, path: Path) -> Path | None:
    """Draw molecules of the bundled model; `None` where RDKit is missing."""
    from catnf.molecules import DEFAULT_MODEL, molecule_model, sample_molecules
    from catnf.sampling import molecule_task
    from catnf.tasks.molecules.drawing import draw_graphs

    model = molecule_model(None)
    try:
        drawn = sample_molecules(MOLECULES, model)
    except MissingDependencyError as missing:
        console.print(f"[bold]3. No molecules[/] without RDKit: {missing}")
        return None
    share = sum(molecule.valid for molecule in drawn) / len(drawn)
    legends = [f"{molecule.bits_per_node:.2f} bits/atom" for molecule in drawn]
    graphs = [molecule.graph for molecule in drawn]
    draw_graphs(path, graphs, molecule_task(model).vocabulary, legends)
    example = next((one.smiles for one in drawn if one.valid), "none")
    console.print(
        f"[bold]3. Drawing[/] {MOLECULES} molecules from the bundled {DEFAULT_MODEL}: {share:.1%} of them "
        f"are valid, for instance\n   {example}"
    )
    return path


def _page(
    fitted: FittedModel,
    measured: Evaluation,
    curve: Path,
    picture: Path,
    samples: list[list[int]],
    grid: Path | None,
) -> str:
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{value:.4f}</td></tr>"
        for name, value in measured.metrics.items()
    )
    drawn = "\n".join(" ".join(f"{value:2d}" for value in row) for row in samples)
    bundled = f"<h2>Sets drawn from {BUNDLED}</h2><pre>{drawn}</pre>" if samples else ""
    molecules = (
        ""
        if grid is None
        else f"""<h2>Molecules, drawn just now</h2>
<img alt="a grid of molecules" src="{_inline(grid)}">"""
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>catnf demo</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
img {{ max-width: 100% }} td {{ padding: .2rem 1.5rem .2rem 0; border-bottom: 1px solid #ddd }}
pre {{ background: #f5f5f5; padding: 1rem; overflow-x: auto }}
</style></head><body>
<h1>A categorical normalizing flow, trained just now</h1>
<p>{fitted.provenance["steps"]} steps in {fitted.provenance["seconds"]} s on
{html.escape(str(fitted.provenance["hardware"]))}.</p>
<table>{rows}</table>
<h2>Loss</h2><img alt="bits per variable against training steps" src="{_inline(curve)}">
<h2>The learned encoding</h2>
<p>Left: where each category lives in the two latent channels. Right: the category that the decoder reads
at every point; inside the lines it is more than 95 % sure.</p>
<img alt="densities per category and the decoder's partition" src="{_inline(picture)}">
{bundled}
{molecules}
</body></html>
"""


def _inline(image: Path) -> str:
    return "data:image/png;base64," + base64.b64encode(image.read_bytes()).decode()
