"""Trained models on a space small enough to enumerate: probabilities, bounds and samples must agree."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import pytest
import torch
from torch import Tensor

from catnf.context import Context, SetContext
from catnf.models import Model
from catnf.tasks.sets.models import SetModelConfig, build_set_model
from catnf.tasks.task import Split, Task
from catnf.training.config import TrainingConfig
from catnf.training.step import TrainingStep

CATEGORIES, ELEMENTS = 3, 3
STATES = torch.tensor(list(product(range(CATEGORIES), repeat=ELEMENTS)))  # [27, 3]
STEPS = 300
DRAWS = 2000
SAMPLES = 10_000


class Target(Task):
    """A distribution over all 27 states that depends on the counts of the categories alone.

    Flows over sets cannot tell orders apart, so that a target which does would be out of their reach.
    """

    def __init__(self) -> None:
        zeros = (STATES == 0).sum(1)
        twos = (STATES == 2).sum(1)
        spread = torch.tensor([len(set(state)) for state in STATES.tolist()])
        self.probabilities = torch.softmax(0.8 * zeros - 0.4 * twos + 1.2 * (spread == 3).float(), dim=0)

    @property
    def name(self) -> str:
        return "tests/enumeration"

    @property
    def categories(self) -> int:
        return CATEGORIES

    @property
    def entropy(self) -> float:
        """In nats, of a whole state."""
        return -(self.probabilities * self.probabilities.log()).sum().item()

    def batch(self, size: int, generator: torch.Generator) -> tuple[Tensor, Context]:
        index = torch.multinomial(self.probabilities, size, replacement=True, generator=generator)
        return STATES[index], SetContext(size, ELEMENTS)

    def frequencies(self) -> Tensor:
        one_hot = torch.nn.functional.one_hot(STATES, CATEGORIES).float().mean(1)
        return self.probabilities @ one_hot

    def evaluation(self, split: Split, limit: int | None = None) -> Tensor:
        return STATES[:limit]

    def context(self, x: Tensor) -> SetContext:
        return SetContext.of(x)

    def sample_context(self, size: int, device: torch.device | str = "cpu") -> SetContext:
        return SetContext(size, ELEMENTS)

    def sample_metrics(self, x: Tensor, ctx: Context | None = None) -> dict[str, float]:
        return {}


@dataclass(frozen=True)
class Trained:
    kind: str
    model: Model
    target: Target
    losses: Tensor  # nats per variable of every training step
    weights: Tensor  # [27, draws], exp of single bounds: unbiased estimates of the probabilities

    @property
    def exact(self) -> bool:
        return self.kind == "discrete"

    @property
    def probabilities(self) -> Tensor:
        return self.weights.mean(1)

    @property
    def errors(self) -> Tensor:
        """Standard errors of `probabilities`."""
        return self.weights.std(1) / math.sqrt(self.weights.shape[1])


KINDS = ["mixture", "linear", "variational", "latent", "dequantization", "discrete"]


@pytest.fixture(scope="module", params=KINDS)
def trained(request: pytest.FixtureRequest) -> Trained:
    torch.manual_seed(1)
    target = Target()
    config = SetModelConfig(
        kind=request.param,
        channels=4,  # with fewer, categories that happen to start close together need long to part
        layers=3,
        mixtures=4,
        hidden=16,
        blocks=1,
        heads=2,
        encoding_layers=1,
        features=4,
    )
    model = build_set_model(config, target.frequencies(), ELEMENTS)
    generator = torch.Generator().manual_seed(2)
    model.initialize(*target.batch(512, generator))
    training = TrainingConfig(
        steps=STEPS,
        batch=64,
        learning_rate=1e-2,
        schedule="cosine",
        clip=5.0,
        average=0.0,
        reconstruction_start=5.0,
        warmup=20,
    )
    step = TrainingStep(model, target, training, generator)
    for _ in range(STEPS):
        step()
    losses = step.read_losses()
    with torch.no_grad():
        x = STATES.repeat_interleave(DRAWS, 0)
        bounds = model.bound(x, SetContext.of(x), generator).value
    return Trained(request.param, model, target, losses, bounds.double().exp().view(len(STATES), DRAWS))


def test_training_ends_near_the_entropy(trained: Trained) -> None:
    assert torch.isfinite(trained.losses).all()
    assert trained.losses[-50:].mean().item() * ELEMENTS < trained.target.entropy + 0.8


def test_probabilities_sum_to_1(trained: Trained) -> None:
    total = trained.probabilities.sum().item()
    if trained.exact:
        assert total == pytest.approx(1.0, abs=1e-5)
    error = trained.errors.square().sum().sqrt().item()
    assert error < 0.05
    # Rare large weights are missing from most runs, and hence also from the estimate of the error.
    assert abs(total - 1.0) <= 3 * error + 0.01


def test_log_prob_is_the_logarithm_of_the_mean_weight(trained: Trained) -> None:
    ctx, generator = SetContext.of(STATES), torch.Generator().manual_seed(3)
    log_prob = trained.model.log_prob(STATES, ctx, samples=1000, generator=generator, chunk=5000)
    distance = 0.5 * (log_prob.exp() - trained.probabilities).abs().sum().item()
    # Fewer draws have errors twice as large; the distance adds up the errors of all states.
    assert distance <= 3 * trained.errors.sum().item() + 1e-5


def test_more_draws_make_the_bound_tighter(trained: Trained) -> None:
    bounds = [
        trained.weights.view(len(STATES), -1, draws).mean(2).log().mean(1)
        @ trained.target.probabilities.double()
        for draws in (1, 10, DRAWS)
    ]
    if trained.exact:
        torch.testing.assert_close(bounds[0], bounds[2])
    else:
        assert bounds[0] < bounds[1] < bounds[2]
    generator = torch.Generator().manual_seed(6)
    x = STATES.repeat(20, 1)
    single = trained.model.log_prob(x, SetContext.of(x), generator=generator).view(20, -1).mean(0).double()
    assert single @ trained.target.probabilities.double() < bounds[2] + 1e-5


def test_nothing_beats_the_entropy(trained: Trained) -> None:
    target = trained.target.probabilities
    cross_entropy = -(target * trained.probabilities.log()).sum().item()
    error = (target * trained.errors / trained.probabilities).square().sum().sqrt().item()
    assert cross_entropy >= trained.target.entropy - 3 * error - 1e-5
    assert cross_entropy < trained.target.entropy + 0.25


def test_samples_follow_the_probabilities(trained: Trained) -> None:
    x = trained.model.sample(SetContext(SAMPLES, ELEMENTS), torch.Generator().manual_seed(4))
    index = (x * torch.tensor([9, 3, 1])).sum(1)
    shares = torch.bincount(index, minlength=len(STATES)).double() / SAMPLES
    p = trained.probabilities
    deviation = (p / SAMPLES + trained.errors.square()).sqrt()
    # Samples take the most probable categories of their latents, which is exact only if p(x|z) is sharp.
    slack = 0.0 if trained.kind in ("discrete", "dequantization") else 0.01
    assert ((shares - p).abs() <= 4.5 * deviation + slack).all()


def test_reconstruction(trained: Trained) -> None:
    x = STATES.repeat(20, 1)
    back = trained.model.reconstruct(x, SetContext.of(x), torch.Generator().manual_seed(5))
    assert (back == x).float().mean() >= (1.0 if trained.exact else 0.92)
