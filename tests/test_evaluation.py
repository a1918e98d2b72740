"""What is measured about a trained model."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from catnf.context import Context
from catnf.errors import InputError
from catnf.evaluation import Evaluation, EvaluationOptions, evaluate
from catnf.experiments import load_experiment
from catnf.fitted import FittedModel, load
from catnf.models import Bound
from catnf.training.run import RunOptions, train

OPTIONS = EvaluationOptions(examples=200, samples=8, generated=300)
SIZES = ("task.size=4", "model.hidden=16", "model.heads=2", "model.blocks=1", "model.layers=2")
TRAINING = ("training.batch=32", "training.initialization_batches=2", "training.steps=60")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FittedModel]:
    out = {}
    for kind in ("mixture", "discrete"):
        folder = tmp_path_factory.mktemp(kind)
        experiment = load_experiment(f"sets/shuffling/{kind}", (*SIZES, *TRAINING, "training.warmup=0"))
        train(experiment, RunOptions(folder, device="cpu", quiet=True))
        out[kind] = load(folder)
    return out


@pytest.fixture(scope="module")
def measured(models: dict[str, FittedModel]) -> dict[str, Evaluation]:
    return {kind: evaluate(model, OPTIONS) for kind, model in models.items()}


@pytest.mark.parametrize("kind", ["mixture", "discrete"])
def test_metrics_have_names_intervals_and_counts(measured: dict[str, Evaluation], kind: str) -> None:
    got = measured[kind]
    assert set(got.metrics) == {"bits_per_variable", "bits_bound", "reconstruction", "validity", "optimum"}
    assert set(got.intervals) == {"bits_per_variable", "bits_bound", "validity"}
    for name, (low, high) in got.intervals.items():
        assert low <= got.metrics[name] <= high, name
    assert (got.n["bits_per_variable"], got.n["validity"]) == (200, 300)
    assert got.n["draws"] == (8 if kind == "mixture" else 1), "one draw is exact"
    assert got.metrics["optimum"] == pytest.approx(math.log2(24) / 4)
    assert 0.0 <= got.metrics["validity"] <= 1.0
    assert 0.0 <= got.intervals["validity"][0] <= got.intervals["validity"][1] <= 1.0
    assert 0.0 <= got.metrics["reconstruction"] <= 1.0
    json.dumps([got.metrics, got.intervals], allow_nan=False)


def test_more_draws_give_a_tighter_bound(models: dict[str, FittedModel]) -> None:
    bits = [
        evaluate(models["mixture"], replace(OPTIONS, samples=samples, generated=0)).metrics
        for samples in (1, 8, 64)
    ]
    values = [each["bits_per_variable"] for each in bits]
    assert values[0] > values[1] > values[2]
    assert values[2] > math.log2(24) / 4 - 0.05, "no model beats the entropy by more than noise"
    assert values[0] == pytest.approx(bits[0]["bits_bound"]), "one draw is the training bound"


@pytest.mark.parametrize("seed", range(5))
def test_weighting_never_loosens_the_bound_of_the_same_draws(
    models: dict[str, FittedModel], seed: int
) -> None:
    few = replace(OPTIONS, examples=2, samples=2, generated=0, seed=seed)
    metrics = evaluate(models["mixture"], few).metrics
    assert metrics["bits_per_variable"] <= metrics["bits_bound"] + 1e-6


def test_exact_likelihoods_need_one_draw(measured: dict[str, Evaluation]) -> None:
    metrics = measured["discrete"].metrics
    assert metrics["bits_per_variable"] == pytest.approx(metrics["bits_bound"], rel=1e-5)
    assert metrics["reconstruction"] == 1.0


def test_the_same_seed_measures_the_same(
    models: dict[str, FittedModel], measured: dict[str, Evaluation]
) -> None:
    assert evaluate(models["mixture"], OPTIONS).metrics == measured["mixture"].metrics
    other = evaluate(models["mixture"], replace(OPTIONS, seed=1)).metrics
    assert other["bits_per_variable"] != measured["mixture"].metrics["bits_per_variable"]


def test_chunks_bound_memory_and_not_the_result(
    models: dict[str, FittedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = models["discrete"].model
    whole, batches = model.bound, []

    def recorded(x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Bound:
        batches.append(ctx.batch)
        return whole(x, ctx, generator)

    monkeypatch.setattr(model, "bound", recorded)
    one = evaluate(models["discrete"], replace(OPTIONS, chunk=160, generated=0))
    assert max(batches) <= 10
    other = evaluate(models["discrete"], replace(OPTIONS, generated=0))
    assert max(batches) > 10
    assert one.metrics["bits_per_variable"] == pytest.approx(other.metrics["bits_per_variable"], rel=1e-5)


def test_splits_differ(models: dict[str, FittedModel], measured: dict[str, Evaluation]) -> None:
    other = evaluate(models["mixture"], replace(OPTIONS, split="test"))
    assert other.metrics["bits_per_variable"] != measured["mixture"].metrics["bits_per_variable"]


def test_only_some_examples_need_to_come_back(
    models: dict[str, FittedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, sent = models["mixture"].model, []
    forth_and_back = model.reconstruct

    def recorded(x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Tensor:
        sent.append(x)
        return forth_and_back(x, ctx, generator)

    monkeypatch.setattr(model, "reconstruct", recorded)
    some = evaluate(models["mixture"], replace(OPTIONS, reconstructed=50, generated=0))
    assert some.n["reconstruction"] == 50
    assert some.n["bits_per_variable"] == OPTIONS.examples
    x = models["mixture"].task.evaluation(OPTIONS.split, OPTIONS.examples)
    assert torch.equal(torch.cat(sent), x[::4]), "every fourth of 200"


def test_a_single_example_has_no_interval(models: dict[str, FittedModel]) -> None:
    got = evaluate(models["discrete"], EvaluationOptions(examples=1, samples=1, generated=0))
    assert got.intervals == {}
    assert "validity" not in got.metrics


def test_the_interval_is_that_of_the_mean(models: dict[str, FittedModel]) -> None:
    model = models["mixture"]
    got = evaluate(model, replace(OPTIONS, samples=1, generated=0))
    x = model.task.evaluation(OPTIONS.split, 200)
    bits = -model.log_prob(x, 1, seed=0) / 4 / math.log(2)
    half = 1.96 * float(torch.std(bits)) / math.sqrt(200)
    low, high = got.intervals["bits_bound"]
    assert (high - low) / 2 == pytest.approx(half, rel=1e-4)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("examples", 0),
        ("samples", 0),
        ("reconstructed", 0),
        ("attempted", 0),
        ("chunk", 0),
        ("generated", -1),
        ("temperature", 0.0),
    ],
)
def test_options_without_a_meaning_are_refused(field: str, value: float) -> None:
    with pytest.raises(InputError, match=f"{field} is {value}"):
        EvaluationOptions(**{field: value})  # type: ignore[arg-type]
