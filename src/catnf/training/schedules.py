"""Numbers that change with the step."""

from __future__ import annotations

import math

from catnf.training.config import TrainingConfig


def learning_rate(config: TrainingConfig, step: int) -> float:
    """The learning rate of step `step`, counted from 0.

    Example:
        >>> learning_rate(TrainingConfig(learning_rate=1.0, schedule="cosine", steps=100), 50)
        0.5
    """
    if step < config.warmup:
        return config.learning_rate * (step + 1) / config.warmup
    if config.schedule == "exponential":
        return config.learning_rate * config.decay**step
    progress = (step - config.warmup) / max(1, config.steps - config.warmup)
    return config.learning_rate * 0.5 * (1.0 + math.cos(math.pi * min(1.0, progress)))


def reconstruction_weight(config: TrainingConfig, step: int) -> float:
    """The weight of `log p(x|z)` in the loss of step `step`.

    Example:
        >>> reconstruction_weight(TrainingConfig(), 5000)
        1.5
    """
    halvings = max(0, step - config.reconstruction_hold) / config.reconstruction_half_life
    return 1.0 + (config.reconstruction_start - 1.0) * 2.0**-halvings
