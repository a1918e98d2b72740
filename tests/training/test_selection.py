"""Keeping the best weights: what is kept, when training stops, and that resuming changes nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from catnf.errors import InputError
from catnf.experiments import Experiment, load_experiment
from catnf.fitted import load
from catnf.storage import load_tensors
from catnf.training.run import RunOptions, RunSummary, train
from catnf.training.selection import Selection
from catnf.training.step import TrainingStep

Tiny = Callable[..., Experiment]
LOOKS = ("training.validate_every=4", "training.validation_examples=64", "training.validation_draws=2")


def run(experiment: Experiment, folder: Path, **options: object) -> RunSummary:
    settings = {"device": "cpu", "quiet": True, "log_every": 3, **options}
    return train(experiment, RunOptions(folder, **settings))  # type: ignore[arg-type]


def parts(experiment: Experiment) -> tuple[TrainingStep, Selection]:
    task = experiment.make_task()
    generator = torch.Generator().manual_seed(5)
    model = experiment.make_model(task, seed=3)
    model.initialize(*task.batch(64, generator), generator)
    step = TrainingStep(model, task, experiment.training, generator)
    return step, Selection(step, task, experiment.training)


def test_what_cannot_be_validated_is_refused_before_the_first_step(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = tiny("mixture", *LOOKS)

    def none(self: object, split: str, limit: int | None = None) -> None:
        raise InputError(f"The {split} split is empty.")

    monkeypatch.setattr(type(experiment.make_task()), "evaluation", none)
    with pytest.raises(InputError, match="The validation split is empty"):
        run(experiment, tmp_path)
    assert not (tmp_path / "losses.csv").exists()
    run(tiny("mixture"), tmp_path)  # without looks, nothing is missing


def test_the_best_look_is_kept(tiny: Tiny) -> None:
    step, selection = parts(tiny("mixture", *LOOKS, "training.learning_rate=0.05"))
    seen = []
    for _ in range(20):
        step()
        selection.look()
        if step.index % 4 == 0:
            before = step.flat.values.detach().clone()
            seen.append((selection._score(), step.index, step.average.clone()))
            assert torch.equal(step.flat.values, before), "a look changes nothing"
    nats, index, weights = min(seen, key=lambda item: item[0])
    assert selection.bits == pytest.approx(nats / math.log(2))
    assert selection.best_step == index
    assert torch.equal(selection.weights, weights)


def test_the_last_step_is_looked_at(tiny: Tiny, tmp_path: Path) -> None:
    experiment = tiny("mixture", *LOOKS, "training.steps=6", "training.validate_every=100")
    run(experiment, tmp_path)
    fitted = load(tmp_path)
    assert fitted.provenance["best_step"] == 6
    assert load_tensors(tmp_path / "checkpoint.safetensors")[0]["selection.record"][1] == 6


def test_a_stopped_and_resumed_run_selects_the_same(tiny: Tiny, tmp_path: Path) -> None:
    experiment = tiny("mixture", *LOOKS, "training.learning_rate=0.05", "training.patience=3")
    whole = run(experiment, tmp_path / "whole")
    for _ in range(20):
        piece = run(experiment, tmp_path / "pieces", max_time=0.0)
        if piece.finished:
            break
    assert piece.step == whole.step
    for name in ("checkpoint.safetensors", "model.safetensors"):
        (left, _), (right, _) = (
            load_tensors(tmp_path / "whole" / name),
            load_tensors(tmp_path / "pieces" / name),
        )
        assert left.keys() == right.keys()
        assert all(torch.equal(left[key], right[key]) for key in left)


def test_patience_ends_a_run_for_good(tiny: Tiny, tmp_path: Path) -> None:
    # Steps of size 0.5 make every look worse than the first ones.
    experiment = tiny("mixture", *LOOKS, "training.steps=400", "training.patience=2", "training.average=0.5")
    experiment = Experiment.from_mapping(
        {**_mapping(experiment), "training": {**_mapping(experiment)["training"], "learning_rate": 0.5}}
    )
    done = run(experiment, tmp_path)
    assert done.finished
    assert done.step < 400
    assert run(experiment, tmp_path).step == done.step
    fitted = load(tmp_path)
    assert fitted.provenance["best_step"] == done.step - 8  # two looks before the end


def test_a_checkpoint_is_read_with_its_best_weights(tiny: Tiny, tmp_path: Path) -> None:
    run(tiny("mixture", *LOOKS, "training.learning_rate=0.05"), tmp_path)
    model = load(tmp_path / "model.safetensors").model.state_dict()
    checkpoint = load(tmp_path / "checkpoint.safetensors").model.state_dict()
    assert all(torch.equal(model[name], checkpoint[name]) for name in model)


def test_weight_decay_shrinks_matrices_and_nothing_else(tiny: Tiny) -> None:
    plain, _ = parts(tiny())
    decayed, _ = parts(tiny("mixture", "training.weight_decay=2.0"))
    before = decayed.flat.values.detach().clone()
    plain()
    decayed()
    marks = decayed.flat.matrices()
    shrunk = before * marks * 2.0 * float(decayed.rate)
    assert torch.allclose(decayed.flat.values, plain.flat.values - shrunk, atol=1e-6)
    assert 0 < int(marks.sum()) < len(marks)


def test_patience_without_looks_is_refused(tiny: Tiny) -> None:
    with pytest.raises(InputError, match=r"training\.validate_every"):
        tiny("mixture", "training.patience=2")


def _mapping(experiment: Experiment) -> dict[str, object]:
    from catnf.configuration import to_mapping

    return to_mapping(experiment)


def test_texts_are_scored_over_all_their_symbols() -> None:
    """As evaluation does it: a long sentence counts more than a short one."""
    experiment = load_experiment(
        "text/ptb/lstm",
        ["model.hidden=8", "model.features=4", "training.batch=8", "training.validation_examples=40"],
    )
    task = experiment.make_task()
    try:
        x, ctx = task.evaluation("validation", 40), task.evaluation_context("validation", 40)
    except OSError as error:
        pytest.skip(str(error))
    step, selection = parts(experiment)
    nats = -step.model.log_prob(x, ctx)
    assert selection._score() == pytest.approx(float(nats.sum() / ctx.counts(nats).sum()), rel=1e-5)
