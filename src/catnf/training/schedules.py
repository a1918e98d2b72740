"""Numbers that change with the step."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from catnf.training.config import TrainingConfig

_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


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


def choose_bucket(shares: Sequence[float], step: int) -> int:
    """The bucket that step `step` draws from: as often as its share says, evenly spread over the steps.

    Example:
        >>> [choose_bucket([0.25, 0.75], step) for step in range(8)]
        [1, 0, 1, 1, 0, 1, 1, 1]
    """
    # Multiples of the golden ratio fill the interval from 0 to 1 as evenly as any sequence.
    place = (step + 1) * _GOLDEN % 1.0 * sum(shares)
    return min(bisect_right(list(accumulate(shares)), place), len(shares) - 1)
