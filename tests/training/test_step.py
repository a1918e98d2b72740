"""One training step against a plain loop, and its state."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from catnf.experiments import Experiment
from catnf.models import Model
from catnf.training.schedules import average_decay, rate_factor, reconstruction_weight
from catnf.training.step import TrainingStep

Tiny = Callable[..., Experiment]
STEPS = 9  # RAdam changes its rule after the first five


def prepared(experiment: Experiment) -> Model:
    task = experiment.make_task()
    model = experiment.make_model(task, seed=3)
    torch.manual_seed(0)  # of the latents that initialization looks at
    model.initialize(*task.batch(64, torch.Generator().manual_seed(4)))
    return model


def make_step(experiment: Experiment, model: Model | None = None, seed: int = 5) -> TrainingStep:
    model = prepared(experiment) if model is None else model
    generator = torch.Generator().manual_seed(seed)
    return TrainingStep(model, experiment.make_task(), experiment.training, generator)


def plain_loop(experiment: Experiment, model: Model) -> tuple[list[float], dict[str, Tensor]]:
    """Losses and averaged weights of ordinary training: separate parameters, torch's own clipping."""
    config, task = experiment.training, experiment.make_task()
    generator = torch.Generator().manual_seed(5)
    kind = torch.optim.RAdam if config.optimizer == "radam" else torch.optim.Adam
    optimizer = kind(model.parameters(), betas=(0.9, config.beta2))
    average = {name: p.detach().clone() for name, p in model.named_parameters()}
    losses = []
    for index in range(STEPS):
        x, ctx = task.batch(config.batch, generator)
        loss, nats = model.loss(x, ctx, generator, reconstruction_weight(config, index))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
        optimizer.param_groups[0]["lr"] = config.learning_rate * rate_factor(config, index)
        optimizer.step()
        decay = average_decay(config, index)
        for name, parameter in model.named_parameters():
            average[name] = decay * average[name] + (1 - decay) * parameter.detach()
        losses.append(float(nats))
    return losses, average


@pytest.mark.parametrize(
    ("kind", "optimizer"),
    [("mixture", "radam"), ("linear", "adam"), ("latent", "radam"), ("discrete", "adam")],
)
def test_equals_a_plain_torch_loop(tiny: Tiny, kind: str, optimizer: str) -> None:
    rates = ("training.learning_rate=1e-2", "training.warmup=3", "training.average=0.5")
    experiment = tiny(kind, f"training.optimizer={optimizer}", *rates)
    model = prepared(experiment)
    reference = copy.deepcopy(model)
    step = make_step(experiment, model)
    for _ in range(STEPS):
        step()
    losses, average = plain_loop(experiment, reference)
    torch.testing.assert_close(step.read_losses(), torch.tensor(losses), rtol=1e-6, atol=1e-6)
    averaged = step.flat.named(step.average)
    assert_nearly_the_same(dict(model.named_parameters()), dict(reference.named_parameters()))
    assert_nearly_the_same(averaged, average)


def assert_nearly_the_same(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    """To the last digit but for a few weights: Adam makes as much of a gradient that is mostly rounding."""
    assert ours.keys() == theirs.keys()
    differences = torch.cat([(ours[name] - theirs[name]).detach().abs().flatten() for name in ours])
    assert float(differences.mean()) < 5e-7
    assert float(differences.max()) < 1e-4


def test_no_averaging_keeps_the_weights_themselves(tiny: Tiny) -> None:
    step = make_step(tiny("mixture", "training.average=0"))
    for _ in range(3):
        step()
    assert torch.equal(step.average, step.flat.values)


def test_losses_are_read_once_and_in_order(tiny: Tiny) -> None:
    one, other = make_step(tiny()), make_step(tiny())
    for _ in range(4):
        one()
    together = one.read_losses()
    apart = []
    for _ in range(4):
        other()
        apart.append(other.read_losses())
    assert torch.equal(together, torch.cat(apart))
    assert len(one.read_losses()) == 0


@pytest.mark.parametrize("optimizer", ["radam", "adam", "muon"])
def test_state_holds_all_that_the_next_step_depends_on(tiny: Tiny, optimizer: str) -> None:
    experiment = tiny("linear", f"training.optimizer={optimizer}")
    step, other = make_step(experiment), make_step(experiment, seed=99)
    for _ in range(3):
        step()
    step.read_losses()
    other.load_state({name: tensor.clone() for name, tensor in step.state().items()}, step.index)
    for _ in range(3):
        step()
        other()
    assert torch.equal(step.read_losses(), other.read_losses())
    for name, tensor in step.state().items():
        assert torch.equal(tensor, other.state()[name]), name


def test_reduce_sees_the_gradient_before_it_is_clipped(tiny: Tiny) -> None:
    experiment = tiny("mixture", "training.clip=1e-3")
    seen: list[float] = []
    step = make_step(experiment)
    step.reduce = lambda gradient: seen.append(float(torch.linalg.vector_norm(gradient)))
    step()
    assert step.flat.values.grad is not None
    clipped = float(torch.linalg.vector_norm(step.flat.values.grad))
    assert seen[0] > 1e-2
    assert clipped == pytest.approx(1e-3, rel=1e-3)


def test_networks_in_bfloat16_learn_in_float32(tiny: Tiny) -> None:
    experiment = tiny("mixture", "training.learning_rate=1e-3")
    model = prepared(experiment)
    generator = torch.Generator().manual_seed(5)
    step = TrainingStep(
        model, experiment.make_task(), experiment.training, generator, network_dtype=torch.bfloat16
    )
    exact = make_step(experiment)
    for _ in range(3):
        step()
        exact()
    low, high = step.read_losses(), exact.read_losses()
    assert torch.isfinite(low).all()
    torch.testing.assert_close(low, high, rtol=0.02, atol=0.02)
    copies = {name: p for name, p in model.named_parameters() if p.dtype == torch.bfloat16}
    assert copies, "networks are not in bfloat16"
    values = step.flat.named(step.flat.values)
    for name, parameter in copies.items():
        assert torch.equal(parameter, values[name].bfloat16()), name
