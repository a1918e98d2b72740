"""Measuring speed: training step, likelihood, sampling."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from catnf.errors import InputError
from catnf.experiments import Experiment
from catnf.locking import locked
from catnf.models import Model
from catnf.tasks.task import Task
from catnf.training.step import TrainingStep, capture


def bench(
    experiment: Experiment,
    batch: int,
    device: torch.device,
    repeats: int = 30,
    step_only: bool = False,
    turn: Path | None = None,
) -> dict[str, float]:
    """Median milliseconds of a training step, the likelihood and sampling of `batch` examples.

    On a GPU networks run in bfloat16 and time is measured with events on the device; compilation, graph
    capture and warm-up are excluded everywhere. There it also tells the gigabytes that training takes.

    Args:
        experiment: what is measured.
        batch: examples at once.
        device: where.
        repeats: measurements behind a median.
        step_only: leave out the likelihood and sampling.
        turn: a file that is locked while something is timed: several processes may then compile side by side.
    """
    if repeats < 1:
        raise InputError(f"repeats is {repeats}; give at least 1.")
    experiment = replace(experiment, training=replace(experiment.training, batch=batch))
    task = experiment.make_task()
    model = experiment.make_model(task, seed=0).to(device)
    generator = torch.Generator(device=device).manual_seed(0)
    model.initialize(*task.batch(batch, generator), generator)
    on_gpu = device.type == "cuda"
    step = TrainingStep(
        model,
        task,
        experiment.training,
        generator,
        accelerate=on_gpu,
        network_dtype=torch.bfloat16 if on_gpu else torch.float32,
    )
    for _ in range(5):  # a few steps from the start, so that nothing is at its special initial value
        step()
    memory = {"train_memory_gb": torch.cuda.max_memory_reserved(device) / 1e9} if on_gpu else {}
    works: dict[str, Callable[[], object]] = {"train_step_ms": step}
    if not step_only:
        works |= _uses(model, task, batch, generator)
    with locked(turn):
        return {name: _median(work, device, repeats) for name, work in works.items()} | memory


def _uses(
    model: Model, task: Task, batch: int, generator: torch.Generator
) -> dict[str, Callable[[], object]]:
    """The likelihood and sampling of `batch` examples, compiled and ready to be timed."""
    device = generator.device
    x, ctx = task.batch(batch, generator)
    context = task.sample_context(batch, device)

    @torch.no_grad()
    def score() -> None:
        model.likelihood(x, ctx, generator)

    @torch.no_grad()
    def draw() -> None:
        model.draw(context, generator)

    if device.type != "cuda":
        return {"log_prob_ms": score, "sample_ms": draw}
    return {"log_prob_ms": capture(score, generator), "sample_ms": capture(draw, generator)}


def _median(work: Callable[[], object], device: torch.device, repeats: int) -> float:
    for _ in range(3):
        work()
    times: list[float] = []
    if device.type != "cuda":
        for _ in range(repeats):
            start = time.perf_counter()
            work()
            times.append((time.perf_counter() - start) * 1e3)
        return statistics.median(times)
    events = [(_event(), _event()) for _ in range(repeats)]
    for before, after in events:
        before.record()
        work()
        after.record()
    torch.cuda.synchronize()
    times += [before.elapsed_time(after) for before, after in events]
    return statistics.median(times)


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
