"""Two processes through Lightning's DDP are one process with the doubled batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from catnf.configuration import to_mapping
from catnf.context import SetContext
from catnf.experiments import Experiment
from catnf.fitted import load
from catnf.models import CategoricalFlow, Model
from catnf.storage import load_tensors
from catnf.training.flat import FlatParameters

Tiny = Callable[..., Experiment]
ENVIRONMENT = {key: value for key, value in os.environ.items() if key not in ("LOCAL_RANK", "WORLD_SIZE")} | {
    "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
    "OMP_NUM_THREADS": "1",
}


@pytest.fixture(scope="module")
def experiments(tiny: Tiny) -> dict[str, Experiment]:
    overrides = ("training.steps=6", "training.warmup=0", "training.learning_rate=1e-2")
    return {kind: tiny(kind, *overrides) for kind in ("mixture", "discrete")}


@pytest.fixture(scope="module")
def seen(
    experiments: dict[str, Experiment], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[dict[str, Tensor]]]:
    """What each of the two processes saw, for every kind of model."""
    folder = tmp_path_factory.mktemp("parallel")
    (folder / "experiments.json").write_text(json.dumps([to_mapping(e) for e in experiments.values()]))
    script = Path(__file__).with_name("parallel_script.py")
    subprocess.run(
        [sys.executable, script, folder, folder / "experiments.json"],
        check=True,
        env=ENVIRONMENT,
        timeout=300,
    )
    return {
        kind: [load_tensors(folder / f"{kind}-{rank}.safetensors")[0] for rank in (0, 1)]
        for kind in experiments
    }


def gradient_of_one_process(experiment: Experiment, told: list[dict[str, Tensor]]) -> Tensor:
    """The gradient of the doubled batch: both processes' examples, with the noise both drew."""
    task = experiment.make_task()
    model = experiment.make_model(task, seed=1)
    flat = FlatParameters(model)
    flat.load(told[0]["start"])
    examples, noises = [], []
    for process in told:
        generator = torch.Generator()
        generator.set_state(process["random"])
        examples.append(task.batch(experiment.training.batch, generator)[0])
        if isinstance(model, CategoricalFlow):
            shape = (*examples[-1].shape, model.encoding.channels)
            noises.append(model.encoding.noise.sample(shape, generator, "cpu"))
    x = torch.cat(examples)
    weight = experiment.training.reconstruction_start
    flat.collect(torch.autograd.grad(doubled_loss(model, x, noises, weight), flat.parameters))
    assert flat.values.grad is not None
    return flat.values.grad


def doubled_loss(model: Model, x: Tensor, noises: list[Tensor], weight: float) -> Tensor:
    ctx = SetContext.of(x)
    if not isinstance(model, CategoricalFlow):
        return model.loss(x, ctx)[0]
    encoded = model.encoding(x, torch.cat(noises), ctx)
    z, logdet = model.flow(encoded.z, ctx)
    value = ctx.total(model.base.log_prob(z)) + logdet + encoded.log_weight
    return -(value + (weight - 1.0) * encoded.log_posterior).mean() / x.shape[1]


@pytest.mark.parametrize("kind", ["mixture", "discrete"])
def test_averaged_gradient_is_that_of_the_doubled_batch(
    experiments: dict[str, Experiment], seen: dict[str, list[dict[str, Tensor]]], kind: str
) -> None:
    told = seen[kind]
    expected = gradient_of_one_process(experiments[kind], told)
    assert float(expected.abs().max()) > 1e-3
    for process in told:
        torch.testing.assert_close(process["gradient"], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["mixture", "discrete"])
def test_processes_hold_the_same_weights_and_see_other_examples(
    seen: dict[str, list[dict[str, Tensor]]], kind: str
) -> None:
    one, other = seen[kind]
    for name in ("start", "gradient", "values", "average"):
        assert torch.equal(one[name], other[name]), name
    assert not torch.equal(one["values"], one["start"])
    assert not torch.equal(one["random"], other["random"])
    assert torch.equal(one["bits"], other["bits"]), "what is told is the mean of both"


def test_command_line_with_two_processes(tmp_path: Path) -> None:
    """Stops after 100 of 150 steps, goes on, and speaks with one voice."""
    sizes = ["task.size=4", "model.hidden=16", "model.heads=2", "model.blocks=1", "model.layers=2"]
    more = ["training.batch=16", "training.initialization_batches=2", "training.steps=150"]
    command = [sys.executable, "-m", "catnf", "train", "sets/shuffling/discrete", "--json", "--quiet"]
    command += ["--device=cpu", "--devices=2", f"--output={tmp_path}"]
    command += [f"--set={override}" for override in (*sizes, *more)]
    told = []
    for options in (["--max-time=0"], []):
        done = subprocess.run(
            command + options, env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        assert len(done.stdout.splitlines()) == 1, done.stdout
        told.append(json.loads(done.stdout))
    assert [(each["step"], each["finished"]) for each in told] == [(100, False), (150, True)]
    rows = (tmp_path / "losses.csv").read_text().splitlines()
    assert [int(row.split(",")[0]) for row in rows[1:]] == list(range(1, 151))
    tensors, header = load_tensors(tmp_path / "checkpoint.safetensors")
    assert header["step"] == 150
    assert tensors["random"].shape[0] == 2
    assert not torch.equal(*tensors["random"])
    assert load(tmp_path).sample(3, seed=0).shape == (3, 4)
