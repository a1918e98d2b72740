"""Measuring a trained model."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from catnf.errors import InputError
from catnf.fitted import FittedModel
from catnf.models.model import check_temperature
from catnf.tasks.task import Split


@dataclass(frozen=True)
class EvaluationOptions:
    """How thoroughly to measure."""

    split: Split = "validation"  # choices are made on it; "test" is for the figures one reports
    examples: int = 512  # examples of the split that are scored
    samples: int = 100  # draws of the importance-weighted bound
    generated: int = 10_000  # samples whose validity is measured, 0 for none
    temperature: float = 1.0  # of the generated samples
    seed: int = 0
    chunk: int = 16_384  # examples times draws that are processed at once

    def __post_init__(self) -> None:
        for name in ("examples", "samples", "chunk"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; give at least 1.")
        if self.generated < 0:
            raise InputError(f"generated is {self.generated}; give 0 or more.")
        check_temperature(self.temperature)


@dataclass(frozen=True)
class Evaluation:
    """Metrics with their 95 % intervals and the numbers of examples behind them."""

    metrics: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    n: dict[str, int]
    split: Split
    seconds: float


@torch.no_grad()
def evaluate(fitted: FittedModel, options: EvaluationOptions) -> Evaluation:
    """Bits per variable, its training bound, reconstruction, and the validity of samples."""
    start = time.monotonic()
    x = fitted.task.evaluation(options.split, options.examples)
    nats = fitted.log_prob(x, options.samples, options.seed, options.chunk)
    single = fitted.log_prob(x, 1, options.seed, options.chunk)
    elements = fitted.task.context(x).counts(nats)
    metrics: dict[str, float] = {}
    intervals: dict[str, tuple[float, float]] = {}
    for name, value in (("bits_per_variable", nats), ("bits_bound", single)):
        bits = -value / elements / math.log(2)
        metrics[name] = float(bits.mean())
        if len(bits) > 1:
            intervals[name] = _interval(bits)
    metrics["reconstruction"] = _reconstruction(fitted, x, options.seed)
    n = {
        "bits_per_variable": len(x),
        "bits_bound": len(x),
        "draws": options.samples,
        "reconstruction": len(x),
    }
    if options.generated:
        samples = fitted.sample(options.generated, options.seed, options.temperature)
        for name, share in fitted.task.sample_metrics(samples).items():
            metrics[name] = share
            intervals[name] = _share_interval(share, len(samples))
            n[name] = len(samples)
    if fitted.task.optimum is not None:
        metrics["optimum"] = fitted.task.optimum
    return Evaluation(metrics, intervals, n, options.split, time.monotonic() - start)


def _reconstruction(fitted: FittedModel, x: Tensor, seed: int) -> float:
    """The share of variables that come back from a trip through the latent space."""
    generator = torch.Generator(device=fitted.device).manual_seed(seed)
    right = 0.0
    for piece in x.split(1024):
        moved = piece.to(fitted.device)
        ctx = fitted.task.context(moved)
        same = (fitted.model.reconstruct(moved, ctx, generator) == moved).float()
        right += float((ctx.total(same) / ctx.counts(same)).sum())
    return right / len(x)


def _interval(values: Tensor) -> tuple[float, float]:
    half = 1.96 * float(values.std()) / math.sqrt(len(values))
    return float(values.mean()) - half, float(values.mean()) + half


def _share_interval(share: float, count: int) -> tuple[float, float]:
    """Wilson's interval, which stays inside 0 to 1 and is right for shares near the ends."""
    z2 = 1.96**2
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = math.sqrt(z2 * (share * (1 - share) / count + z2 / (4 * count**2))) / (1 + z2 / count)
    return middle - half, middle + half
