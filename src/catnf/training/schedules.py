"""Numbers that change with the step."""

from __future__ import annotations

import math

from catnf.training.config import TrainingConfig


def rate_factor(config: TrainingConfig, step: int, elapsed: float = 0.0) -> float:
    """The factor on all learning rates at step `step`, counted from 0.

    With a time budget, `elapsed` is the share of it that is spent, and the cosine ends with the budget.

    Example:
        >>> rate_factor(TrainingConfig(schedule="cosine", steps=100), 50)
        0.5
    """
    if step < config.warmup:
        return (step + 1) / config.warmup
    if config.schedule == "exponential":
        return config.decay**step
    progress = (step - config.warmup) / max(1, config.steps - config.warmup)
    return 0.5 * (1.0 + math.cos(math.pi * min(1.0, max(progress, elapsed))))


def reconstruction_weight(config: TrainingConfig, step: int) -> float:
    """The weight of `log p(x|z)` in the loss of step `step`.

    Example:
        >>> reconstruction_weight(TrainingConfig(), 5000)
        1.5
    """
    halvings = max(0, step - config.reconstruction_hold) / config.reconstruction_half_life
    excess = config.reconstruction_start - config.reconstruction_end
    weight: float = config.reconstruction_end + excess * 2.0**-halvings
    return weight


def average_decay(config: TrainingConfig, step: int) -> float:
    """The decay of the weight average at step `step`: short at first, so that the random start is forgotten.

    Example:
        >>> average_decay(TrainingConfig(average=0.999), 90)
        0.91
    """
    return min(config.average, (1.0 + step) / (10.0 + step))
