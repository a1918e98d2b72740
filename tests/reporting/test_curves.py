"""Loss curves: what is read from runs, and what is stored of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from catnf.experiments import load_experiment
from catnf.reporting.curves import loss_caption, read_losses, stored_curves
from catnf.training.options import RunOptions
from catnf.training.run import train

SCRIPT = Path(__file__).parents[2] / "benchmarks/loss_curves.py"


def test_losses_are_running_means(tmp_path: Path) -> None:
    (tmp_path / "losses.csv").write_text("step,bits\n" + "\n".join(f"{n},{n}" for n in range(30)))
    steps, bits = read_losses(tmp_path)
    assert steps.tolist() == list(range(30))
    assert bits[0] == 0
    assert bits[29] == pytest.approx(sum(range(20, 30)) / 10)


def test_stored_losses_are_those_of_the_runs(tmp_path: Path) -> None:
    """What the script stores has every tenth running mean, and tells what was trained."""
    folder, stored = tmp_path / "run", tmp_path / "losses.json"
    small = ["task.size=4", "model.hidden=16", "model.heads=2", "model.blocks=1", "model.layers=2"]
    small += ["training.batch=16", "training.initialization_batches=2", "training.steps=35"]
    train(load_experiment("sets/shuffling/mixture", small), RunOptions(folder, device="cpu", quiet=True))
    picture = tmp_path / "losses.png"
    given = [stored, f"mine={folder}", "--about", "Tiny flows.", "--picture", picture]
    subprocess.run([sys.executable, SCRIPT, *map(str, given)], check=True, timeout=120)
    told = json.loads(stored.read_text())
    steps, bits = read_losses(folder)
    kept = stored_curves(told)["mine"]
    assert kept[0].tolist() == steps[9::10].tolist()
    assert kept[1] == pytest.approx(bits[9::10], abs=1e-4)
    assert told["runs"][0]["config"]["model"]["hidden"] == 16
    assert loss_caption(told).startswith("Tiny flows. Means of the last 10 losses, 35 steps, ")
    assert picture.stat().st_size > 1000


def test_runs_without_weights_are_described_by_what_was_measured(tmp_path: Path) -> None:
    """Losses that came back alone are stored with the configuration that their result tells."""
    folder, measured, stored = tmp_path / "run", tmp_path / "mine.json", tmp_path / "losses.json"
    folder.mkdir()
    (folder / "losses.csv").write_text("step,bits\n" + "\n".join(f"{n},{n}" for n in range(1, 31)))
    run = {"experiment": "text/ptb/mixture", "seeds": [3], "training": {"steps": 30}, "config": {"task": {}}}
    measured.write_text(json.dumps({"experiment": "text/ptb/mixture", "runs": [run]}))
    subprocess.run([sys.executable, SCRIPT, stored, f"mine={folder}={measured}"], check=True, timeout=120)
    (told,) = json.loads(stored.read_text())["runs"]
    assert told == {"title": "mine", "metrics": {"last_loss": 25.5}, **run}
