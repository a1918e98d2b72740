"""Measuring a trained model."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from catnf.context import Context
from catnf.errors import InputError
from catnf.fitted import FittedModel, examples_at_once
from catnf.models.model import check_temperature
from catnf.tasks.task import Split


@dataclass(frozen=True)
class EvaluationOptions:
    """How thoroughly to measure."""

    split: Split = "validation"  # choices are made on it; "test" is for the figures one reports
    examples: int = 512  # examples of the split that are scored
    samples: int = 100  # draws of the importance-weighted bound
    generated: int = 10_000  # samples whose validity is measured, 0 for none
    attempted: int = 1000  # examples that are tried several times where a task counts attempts
    temperature: float = 1.0  # of the generated samples
    seed: int = 0
    chunk: int = 4_194_304  # pairs of elements at once, over examples and draws; on a GPU eight times as many

    def __post_init__(self) -> None:
        for name in ("examples", "samples", "attempted", "chunk"):
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
    ctx = fitted.task.evaluation_context(options.split, options.examples)
    at_once = max(1, _pairs_at_once(fitted, options) // ctx.elements**2)
    nats = fitted.log_prob(x, options.samples, options.seed, at_once, ctx)
    single = nats if fitted.model.exact else fitted.log_prob(x, 1, options.seed, at_once, ctx)
    elements = ctx.counts(nats)
    metrics: dict[str, float] = {}
    intervals: dict[str, tuple[float, float]] = {}
    for name, value in ((f"bits_per_{fitted.task.unit}", nats), ("bits_bound", single)):
        bits = -value / elements / math.log(2)
        metrics[name] = float(bits.mean())
        if len(bits) > 1:
            intervals[name] = _interval(bits)
    metrics["reconstruction"] = _reconstruction(fitted, x, ctx, options.seed)
    n = {
        f"bits_per_{fitted.task.unit}": len(x),
        "bits_bound": len(x),
        "draws": options.samples,
        "reconstruction": len(x),
    }
    if options.generated:
        given = fitted.task.measured_context(options.split, options.generated)
        samples = fitted.sample(given.batch, options.seed, options.temperature, ctx=given)
        for name, (share, count) in fitted.task.sample_shares(samples, given).items():
            metrics[name], n[name] = share, count
            intervals[name] = _share_interval(share, count)
    if options.generated and fitted.task.attempts:
        several = min(options.examples, options.generated, options.attempted)
        contexts = fitted.task.measured_context(options.split, several)
        for count, share in best_of(fitted, contexts, options).items():
            name = f"validity_best_of_{count}"
            metrics[name], n[name] = share, contexts.batch
            intervals[name] = _share_interval(share, contexts.batch)
    if fitted.task.optimum is not None:
        metrics["optimum"] = fitted.task.optimum
    return Evaluation(metrics, intervals, n, options.split, time.monotonic() - start)


def _reconstruction(fitted: FittedModel, x: Tensor, ctx: Context, seed: int) -> float:
    """The share of variables, or of whole examples, that come back from a trip through the latent space."""
    generator = torch.Generator(device=fitted.device).manual_seed(seed)
    right = 0.0
    at_once = examples_at_once(ctx)
    for start in range(0, len(x), at_once):
        piece = ctx.select(start, start + at_once).to(fitted.device)
        moved = x[start : start + at_once].to(fitted.device)
        back = fitted.model.reconstruct(moved, piece, generator)
        right += float(fitted.task.recovered(moved, back, piece).sum())
    return right / len(x)


def best_of(fitted: FittedModel, ctx: Context, options: EvaluationOptions) -> dict[int, float]:
    """For every number of attempts, the share of examples of `ctx` in which at least one of them is valid."""
    most = max(fitted.task.attempts)
    valid = torch.empty(ctx.batch, dtype=torch.int64)
    # Inverting takes more memory than scoring.
    at_once = max(1, _pairs_at_once(fitted, options) // (8 * most * ctx.elements**2))
    for start in range(0, ctx.batch, at_once):
        piece = ctx.select(start, start + at_once).repeat(most)
        drawn = fitted.sample(
            piece.batch, options.seed + start, options.temperature, chunk=piece.batch, ctx=piece
        )
        valid[start : start + at_once] = fitted.task.valid(drawn, piece).view(-1, most).sum(1)
    counts = valid.tolist()
    return {n: sum(success(most, c, n) for c in counts) / len(counts) for n in fitted.task.attempts}


def _pairs_at_once(fitted: FittedModel, options: EvaluationOptions) -> int:
    return options.chunk * (8 if fitted.device.type == "cuda" else 1)


def success(samples: int, valid: int, attempts: int) -> float:
    """The chance that at least one of `attempts`, drawn from `samples` of which some are valid, is valid.

    >>> success(samples=4, valid=1, attempts=2)
    0.5
    """
    return 1.0 - math.comb(samples - valid, attempts) / math.comb(samples, attempts)


def _interval(values: Tensor) -> tuple[float, float]:
    half = 1.96 * float(values.std()) / math.sqrt(len(values))
    return float(values.mean()) - half, float(values.mean()) + half


def _share_interval(share: float, count: int) -> tuple[float, float]:
    """Wilson's interval, which stays inside 0 to 1 and is right for shares near the ends."""
    z2 = 1.96**2
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = math.sqrt(z2 * (share * (1 - share) / count + z2 / (4 * count**2))) / (1 + z2 / count)
    return middle - half, middle + half
