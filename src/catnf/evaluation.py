"""Measuring a trained model."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from catnf.context import Context
from catnf.errors import InputError
from catnf.fitted import FittedModel, examples_at_once
from catnf.models.model import check_temperature, importance_weighted
from catnf.seeds import derived_seed
from catnf.tasks.task import Measurement, Measuring, Split, spread


@dataclass(frozen=True)
class EvaluationOptions:
    """How thoroughly to measure."""

    split: Split = "validation"  # choices are made on it; "test" is for the figures one reports
    examples: int = 512  # examples of the split that are scored
    samples: int = 100  # draws of the importance-weighted bound
    generated: int = 10_000  # samples whose validity is measured, 0 for none
    reconstructed: int = 2048  # of the scored examples, those that go to latents and back, which is slow
    attempted: int = 1000  # examples that are tried several times where a task counts attempts
    thorough: bool = True  # measure also what takes minutes: best of several, distances from held-out data
    temperature: float = 1.0  # of the generated samples
    seed: int = 0
    precision: Literal["float32", "bfloat16"] = "float32"  # of the networks that score
    chunk: int = 4_194_304  # pairs of elements at once, over examples and draws; on a GPU eight times as many

    def __post_init__(self) -> None:
        for name in ("examples", "samples", "reconstructed", "attempted", "chunk"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; give at least 1.")
        if self.generated < 0:
            raise InputError(f"generated is {self.generated}; give 0 or more.")
        check_temperature(self.temperature)


@dataclass(frozen=True)
class Evaluation:
    """Metrics with their 95 % intervals and the numbers of examples behind them.

    Attributes:
        metrics: figures by name.
        intervals: of those metrics that have one.
        n: of how many examples or samples a metric is.
        split: the held-out data.
        seconds: that measuring took.
        protocols: what a metric means, in words, where several ways to measure it are in use.
        notes: sentences on what was left out.
    """

    metrics: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    n: dict[str, int]
    split: Split
    seconds: float
    protocols: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def joined(self, other: Evaluation) -> Evaluation:
        """Both together."""
        return Evaluation(
            self.metrics | other.metrics,
            self.intervals | other.intervals,
            self.n | other.n,
            self.split,
            self.seconds + other.seconds,
            self.protocols | other.protocols,
            self.notes + other.notes,
        )


def evaluate(fitted: FittedModel, options: EvaluationOptions) -> Evaluation:
    """Bits per variable, its training bound, reconstruction, and the quality of samples."""
    evaluation = evaluate_likelihood(fitted, options)
    if options.generated:
        evaluation = evaluation.joined(evaluate_samples(fitted, options))
    return with_optimum(evaluation, fitted)


def with_optimum(evaluation: Evaluation, fitted: FittedModel) -> Evaluation:
    """Beside the entropy of the data where it is known."""
    best = fitted.task.optimum
    return evaluation if best is None else replace(evaluation, metrics=evaluation.metrics | {"optimum": best})


@torch.no_grad()
def evaluate_likelihood(
    fitted: FittedModel,
    options: EvaluationOptions,
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> Evaluation:
    """What is measured on held-out examples: bits per variable, the training bound, reconstruction.

    `progress` is told what is done, how much of it, of how much.
    """
    start = time.monotonic()
    # Only scores: on the way to latents and back, rounding in between would count as an error of the model.
    scorer = fitted.in_bfloat16() if options.precision == "bfloat16" else fitted
    x = fitted.task.evaluation(options.split, options.examples)
    ctx = fitted.task.evaluation_context(options.split, options.examples)
    at_once = max(1, _pairs_at_once(fitted, options) // ctx.elements**2)
    scoring = partial(progress, "scored")
    draws = scorer.likelihoods(x, options.samples, options.seed, at_once, ctx, scoring)
    nats, single = importance_weighted(draws), draws.mean(1)
    elements = ctx.counts(nats)
    per_unit, bound, back = likelihood_names(fitted)
    metrics: dict[str, float] = {}
    intervals: dict[str, tuple[float, float]] = {}
    some = spread(len(x), options.reconstructed)
    few, given = x[some], ctx.take(some)
    n = {per_unit: len(x), bound: len(x), "draws": draws.shape[1], back: len(few)}
    for name, value in ((per_unit, nats), (bound, single)):
        bits = -value / math.log(2)
        metrics[name], ends = _pooled(bits, elements) if fitted.task.pooled else _averaged(bits / elements)
        intervals |= {} if ends is None else {name: ends}
    if fitted.task.pooled:
        by_example = f"{per_unit}_by_example"
        metrics[by_example], ends = _averaged(-nats / math.log(2) / elements)
        intervals |= {} if ends is None else {by_example: ends}
        metrics["bits_reconstruction"] = _bits_of_decoding(scorer, few, given, options)
        left_out = fitted.task.extra_bits(options.split, options.examples)
        metrics |= left_out
        n |= {by_example: len(x), "bits_reconstruction": len(few)} | dict.fromkeys(left_out, len(x))
    metrics[back] = _reconstruction(fitted, few, given, options.seed, partial(progress, "forth and back"))
    low = {per_unit: "with networks in bfloat16"} if options.precision == "bfloat16" else {}
    return Evaluation(metrics, intervals, n, options.split, time.monotonic() - start, protocols=low)


Figure = tuple[float, tuple[float, float] | None]
"""A value and its interval, where it has one."""


def _averaged(bits: Tensor) -> Figure:
    """The mean of `bits: [examples]` with its interval."""
    return float(bits.mean()), _interval(bits) if len(bits) > 1 else None


def _pooled(bits: Tensor, elements: Tensor) -> Figure:
    """Bits per variable over all variables, of `bits` and `elements` of the examples, and its interval."""
    mean = float(bits.sum() / elements.sum())
    if len(bits) == 1:
        return mean, None
    # Of a quotient of two sums: examples count by how far they are from what their sizes would tell.
    low, high = _interval((bits - mean * elements) / elements.mean())
    return mean, (mean + low, mean + high)


def _bits_of_decoding(fitted: FittedModel, x: Tensor, ctx: Context, options: EvaluationOptions) -> float:
    """`-log p(x|z)` in bits per variable, of examples `x: [examples, elements]`."""
    if fitted.model.exact:
        return 0.0
    total, generator = 0.0, torch.Generator(device=fitted.device).manual_seed(options.seed)
    at_once = max(1, _pairs_at_once(fitted, options) // ctx.elements**2)
    for start in range(0, len(x), at_once):
        piece = ctx.select(start, start + at_once).to(fitted.device)
        found = fitted.model.bound(x[start : start + at_once].to(fitted.device), piece, generator)
        total -= float(found.log_posterior.sum())
    return total / float(ctx.counts(torch.zeros(())).sum()) / math.log(2)


def likelihood_names(fitted: FittedModel) -> tuple[str, str, str]:
    """The metrics that need held-out examples and no samples."""
    return f"bits_per_{fitted.task.unit}", "bits_bound", "reconstruction"


@torch.no_grad()
def evaluate_samples(
    fitted: FittedModel,
    options: EvaluationOptions,
    drawn: tuple[Tensor, Context] | None = None,
    workers: int = 1,
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> Evaluation:
    """What is measured on samples: `drawn`, with the context they were drawn with, or new ones.

    Args:
        fitted: the model that they come from.
        options: how many to draw where none are given, and the split to compare them with.
        drawn: samples `[batch, elements]` with their context.
        workers: processes; several only where the main module can be imported again.
        progress: told what is done, how much of it, of how much.
    """
    start = time.monotonic()
    x, given = drawn if drawn is not None else _drawn(fitted, options)
    how = Measuring(options.split, fitted.device, workers, options.thorough, progress)
    values, notes = fitted.task.measure(x, given.to("cpu"), how)
    if fitted.task.attempts and options.thorough and drawn is None:
        values = values | _best_of(fitted, options)
    return Evaluation(
        {name: found.value for name, found in values.items()},
        {name: _share_interval(found.value, found.n) for name, found in values.items() if found.share},
        {name: found.n for name, found in values.items()},
        options.split,
        time.monotonic() - start,
        {name: found.protocol for name, found in values.items() if found.protocol},
        notes,
    )


def _drawn(fitted: FittedModel, options: EvaluationOptions) -> tuple[Tensor, Context]:
    given = _measured_context(fitted, options, options.generated)
    return fitted.sample(given.batch, options.seed, options.temperature, ctx=given), given


def _measured_context(fitted: FittedModel, options: EvaluationOptions, count: int) -> Context:
    given = fitted.task.measured_context(options.split, count)
    return fitted.sample_context(count, options.seed) if given is None else given


def _best_of(fitted: FittedModel, options: EvaluationOptions) -> dict[str, Measurement]:
    several = min(options.examples, options.generated, options.attempted)
    contexts = _measured_context(fitted, options, several)
    return {
        f"validity_best_of_{count}": Measurement(share, contexts.batch)
        for count, share in best_of(fitted, contexts, options).items()
    }


def _reconstruction(
    fitted: FittedModel, x: Tensor, ctx: Context, seed: int, progress: Callable[[int, int], None]
) -> float:
    """The share of variables, or of whole examples, that come back from a trip through the latent space."""
    generator = torch.Generator(device=fitted.device).manual_seed(seed)
    right = 0.0
    at_once = examples_at_once(ctx)
    for start in range(0, len(x), at_once):
        piece = ctx.select(start, start + at_once).to(fitted.device)
        moved = x[start : start + at_once].to(fitted.device)
        back = fitted.model.reconstruct(moved, piece, generator)
        right += float(fitted.task.recovered(moved, back, piece).sum())
        progress(min(start + at_once, len(x)), len(x))
    return right / len(x)


def best_of(fitted: FittedModel, ctx: Context, options: EvaluationOptions) -> dict[int, float]:
    """For every number of attempts, the share of examples of `ctx` in which at least one of them is valid."""
    most = max(fitted.task.attempts)
    valid = torch.empty(ctx.batch, dtype=torch.int64)
    # Inverting takes more memory than scoring.
    at_once = max(1, _pairs_at_once(fitted, options) // (8 * most * ctx.elements**2))
    for start in range(0, ctx.batch, at_once):
        piece = ctx.select(start, start + at_once).repeat(most)
        seed = derived_seed(options.seed, start) if start else options.seed
        drawn = fitted.sample(piece.batch, seed, options.temperature, chunk=piece.batch, ctx=piece)
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
