"""Trains in a child process that is killed with SIGKILL at random moments, again and again.

Not a test: `test_signals.py` runs it in a process of its own, which has made no threads and can be forked.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from catnf.experiments import Experiment, load_experiment
from catnf.training.run import RunOptions, train


def main(folder: Path, kills: int, overrides: list[str]) -> None:
    torch.set_num_threads(1)
    random.seed(0)
    experiment = load_experiment("sets/shuffling/mixture", overrides)
    for _ in range(kills):
        child = os.fork()
        if child == 0:
            _train(experiment, folder)
        before = _stamp(folder)
        while _stamp(folder) == before:
            time.sleep(0.002)
        time.sleep(random.uniform(0.0, 0.15))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "the run ended before it was killed; give it more steps"


def _train(experiment: Experiment, folder: Path) -> None:
    train(experiment, RunOptions(folder, device="cpu", quiet=True, log_every=3, checkpoint_every=0.0))
    os._exit(0)


def _stamp(folder: Path) -> int:
    """Changes whenever a checkpoint is written."""
    path = folder / "checkpoint.safetensors"
    return path.stat().st_mtime_ns if path.exists() else 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
