"""Keeping the weights that do best on validation data, and stopping when nothing better comes."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from catnf.context import Context
from catnf.tasks.task import Task
from catnf.training.config import TrainingConfig
from catnf.training.step import TrainingStep

_SEED = 20_210  # of the noise of every look, so that looks differ by the weights alone
_PREFIX = "selection."
_ELEMENTS_AT_ONCE = 1 << 16


class Selection:
    """Scores the averaged weights on validation examples every so many steps and keeps the best of them.

    All processes of a training look at the same examples with the same noise, and so decide alike.

    Args:
        step: whose averaged weights are looked at.
        task: where validation examples come from.
        config: `validate_every`, `validation_examples`, `validation_draws` and `patience`.
    """

    def __init__(self, step: TrainingStep, task: Task, config: TrainingConfig) -> None:
        self.step, self.task, self.config = step, task, config
        device = step.average.device
        on = config.validate_every > 0
        if on:
            task.evaluation("validation", 1)  # refuses now, rather than after hours, where there is none
        self.best = step.average.clone() if on else step.average[:0]
        # Nats per variable, the step they belong to, and the looks since then.
        self.record = torch.tensor([math.inf, 0.0, 0.0], dtype=torch.float64)
        self.generator = torch.Generator(device=device)

    @property
    def on(self) -> bool:
        """Whether anything is selected at all."""
        return self.config.validate_every > 0

    @property
    def bits(self) -> float | None:
        """The best validation bound in bits per variable; `None` before the first look."""
        nats = float(self.record[0])
        return nats / math.log(2) if math.isfinite(nats) else None

    @property
    def best_step(self) -> int:
        """The step that the best weights are from."""
        return int(self.record[1])

    @property
    def waited(self) -> int:
        """Looks since the best one."""
        return int(self.record[2])

    @property
    def stopped(self) -> bool:
        """Whether nothing better came for as many looks as patience lasts."""
        return self.on and 0 < self.config.patience <= self.waited

    @property
    def weights(self) -> Tensor:
        """The weights to use: the best ones, or the average where nothing was looked at."""
        return self.step.average if self.bits is None else self.best

    def look(self, last: bool = False) -> None:
        """Score the averaged weights where it is time to: every so many steps, and after the `last` one."""
        if not self.on or (self.step.index % self.config.validate_every == 0) == last:
            return
        # Looks have other shapes than training, and too few of them to be worth compiling for.
        with torch.compiler.set_stance("force_eager"):
            nats = self._score()
        if nats < float(self.record[0]):
            self.record = torch.tensor([nats, float(self.step.index), 0.0], dtype=torch.float64)
            self.best.copy_(self.step.average)
        else:
            self.record[2] += 1

    def state(self) -> dict[str, Tensor]:
        """What later looks depend on; nothing where nothing is selected."""
        return {_PREFIX + "best": self.best, _PREFIX + "record": self.record} if self.on else {}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state()`."""
        if self.on:
            self.best.copy_(state[_PREFIX + "best"])
            self.record = state[_PREFIX + "record"].cpu().clone()

    @torch.no_grad()
    def _score(self) -> float:
        flat, config = self.step.flat, self.config
        kept = flat.values.detach().clone()
        flat.load(self.step.average)
        x = self.task.evaluation("validation", config.validation_examples)
        ctx = self.task.evaluation_context("validation", config.validation_examples)
        device = self.generator.device
        self.generator.manual_seed(_SEED)
        size = max(1, _ELEMENTS_AT_ONCE // max(1, ctx.elements * config.validation_draws))
        nats = torch.cat(
            [
                self._nats(x[start : start + size].to(device), ctx.select(start, start + size).to(device))
                for start in range(0, len(x), size)
            ]
        )
        flat.load(kept)
        counts = ctx.counts(nats).clamp(min=1.0)
        return float(nats.sum() / counts.sum() if self.task.pooled else (nats / counts).mean())

    def _nats(self, x: Tensor, ctx: Context) -> Tensor:
        """Of every example, `[batch]`, on the CPU."""
        return -self.step.model.log_prob(x, ctx, self.config.validation_draws, self.generator).cpu()


def stored_best(state: Mapping[str, Tensor]) -> Tensor | None:
    """The best weights in a checkpoint, flat; `None` where none were selected."""
    record = state.get(_PREFIX + "record")
    return state.get(_PREFIX + "best") if record is not None and bool(record[0].isfinite()) else None
