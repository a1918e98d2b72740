"""What tests of the engine share: experiments so small that a step takes two milliseconds."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import pytest

from catnf.experiments import Experiment, load_experiment

Tiny = Callable[..., Experiment]


@pytest.fixture(scope="session")
def tiny() -> Tiny:
    """A tiny experiment of the given kind, with further overrides."""

    def make(kind: str = "mixture", *overrides: str) -> Experiment:
        sizes = ("task.size=4", "model.hidden=16", "model.heads=2", "model.blocks=1", "model.layers=2")
        more = ("model.mixtures=2", "model.encoding_layers=2", "model.features=8")
        training = ("training.batch=16", "training.initialization_batches=2", "training.steps=20")
        rates = ("training.optimizer=radam", "training.learning_rate=1e-3", "training.schedule=cosine")
        values = (*sizes, *more, *training, *rates, "training.warmup=2", *overrides)
        return load_experiment(f"sets/shuffling/{kind}", values)

    return make


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that moves by 1 ms whenever it is read: pieces end after their steps on any machine.

    By a real clock, a machine that stalls for seconds ends them sooner.
    """
    ticks = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: 0.001 * next(ticks))
