"""Measuring speed."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from threading import Thread

import pytest
import torch

from catnf.bench import bench
from catnf.errors import InputError
from catnf.experiments import Experiment, load_experiment
from catnf.results import record_speed

SIZES = ("task.size=4", "model.hidden=16", "model.heads=2", "model.blocks=1", "model.layers=2")
CPU = torch.device("cpu")


def experiment(kind: str) -> Experiment:
    return load_experiment(f"sets/shuffling/{kind}", SIZES)


@pytest.mark.parametrize("kind", ["mixture", "latent", "discrete"])
def test_three_speeds_in_milliseconds(kind: str) -> None:
    start = time.perf_counter()
    speeds = bench(experiment(kind), 8, CPU, repeats=9)
    spent = (time.perf_counter() - start) * 1e3
    assert set(speeds) == {"train_step_ms", "log_prob_ms", "sample_ms"}
    assert all(math.isfinite(value) for value in speeds.values())
    # Milliseconds: the smallest model takes far more than this, and seconds would be far less.
    assert all(value > 0.02 for value in speeds.values())
    # At least five of nine repeats took the median or longer.
    assert 5 * sum(speeds.values()) <= spent
    # A step contains the likelihood; the shortest of three, since other work may delay either of them.
    again = [speeds, *(bench(experiment(kind), 8, CPU, repeats=9) for _ in range(2))]
    shortest = {name: min(each[name] for each in again) for name in speeds}
    assert shortest["train_step_ms"] > shortest["log_prob_ms"]


def test_timing_waits_for_its_turn(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl", reason="needs file locks")
    turn, done = tmp_path / "turn", []
    small = experiment("discrete")
    waiting = Thread(target=lambda: done.append(bench(small, 4, CPU, 1, step_only=True, turn=turn)))
    with turn.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        waiting.start()
        waiting.join(3.0)
        assert not done
    waiting.join(60.0)
    assert done[0].keys() == {"train_step_ms"}


def test_the_record_says_what_was_measured_and_where() -> None:
    record = record_speed(experiment("mixture"), {"train_step_ms": 1.23456789}, 8, CPU, "catnf bench")
    assert record["metrics"] == {"train_step_ms": 1.2346}
    assert (record["n"], record["command"]) == (8, "catnf bench")
    assert record["hardware"]
    json.dumps(record, allow_nan=False)


def test_no_measurement_and_no_batch_are_refused() -> None:
    with pytest.raises(InputError, match="repeats is 0"):
        bench(experiment("mixture"), 8, CPU, repeats=0)
    with pytest.raises(InputError, match=r"training\.batch is 0"):
        bench(experiment("mixture"), 0, CPU)
