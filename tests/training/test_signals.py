"""Runs that are killed, and runs that are asked to stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from catnf.experiments import load_experiment
from catnf.storage import load_tensors
from catnf.training.interrupt import Interrupt
from catnf.training.run import RunOptions, train

SOURCES = Path(__file__).parents[2] / "src"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(SOURCES), "OMP_NUM_THREADS": "1"}
SIZES = ["task.size=4", "model.hidden=16", "model.heads=2", "model.blocks=1", "model.layers=2"]
OVERRIDES = [*SIZES, "model.mixtures=2", "training.batch=16", "training.initialization_batches=2"]


def test_killed_at_random_moments_and_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    """Three SIGKILLs, each shortly after a new checkpoint, which are written every three steps."""
    # The schedule does not depend on the number of steps: far more while killed than any machine can make.
    overrides = [*OVERRIDES, "training.schedule=exponential"]
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    script = Path(__file__).with_name("kill_script.py")
    subprocess.run(
        [sys.executable, script, killed, "3", *overrides, "training.steps=1000000"],
        check=True,
        env=ENVIRONMENT,
        timeout=300,
    )
    reached = load_tensors(killed / "checkpoint.safetensors")[1]["step"]
    assert reached > 0
    experiment = load_experiment("sets/shuffling/mixture", [*overrides, f"training.steps={reached + 20}"])
    for folder in (killed, whole):
        train(experiment, RunOptions(folder, device="cpu", quiet=True))
    assert (killed / "losses.csv").read_text() == (whole / "losses.csv").read_text()
    left = load_tensors(killed / "checkpoint.safetensors")[0]
    right = load_tensors(whole / "checkpoint.safetensors")[0]
    assert left.keys() == right.keys()
    assert all(torch.equal(left[name], right[name]) for name in right)


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    overrides = [*OVERRIDES, "training.steps=1000000"]
    command = [sys.executable, "-m", "catnf", "train", "sets/shuffling/mixture", "--device", "cpu"]
    options = [f"--set={override}" for override in overrides]
    process = subprocess.Popen(
        [*command, "--output", str(tmp_path / "run"), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
        text=True,
    )
    try:
        _wait_for_losses(process, tmp_path / "run" / "losses.csv")
        logged = len((tmp_path / "run" / "losses.csv").read_text().splitlines()) - 1
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert out == ""
    assert "the same command goes on from here" in err
    assert "Traceback" not in err
    step = load_tensors(tmp_path / "run" / "checkpoint.safetensors")[1]["step"]
    assert step >= logged > 0, "how many that are depends on the machine"
    rows = (tmp_path / "run" / "losses.csv").read_text().splitlines()
    assert len(rows) == step + 1, "every step that was made is logged, and no other"
    experiment = load_experiment("sets/shuffling/mixture", overrides)
    resumed = train(experiment, RunOptions(tmp_path / "run", device="cpu", quiet=True, max_time=0.0))
    assert step < resumed.step <= step + 100


@pytest.fixture
def python_handler() -> Iterator[None]:
    """Ctrl-C raises, also in a job in the background of a shell, where it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("python_handler")
def test_a_second_interrupt_acts_as_always() -> None:
    with Interrupt() as interrupt:
        assert not interrupt.requested
        signal.raise_signal(signal.SIGINT)
        assert interrupt.requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with Interrupt():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def _wait_for_losses(process: subprocess.Popen[str], path: Path) -> None:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        if path.exists() and len(path.read_text().splitlines()) > 1:
            return
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)
    pytest.fail("no losses were logged within four minutes")
