"""Sets: shuffling and summation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from catnf.tasks.sets.data import SetShuffling, SetSummation, SetTask
from catnf.tasks.sets.models import SetModelConfig

__all__ = ["SetModelConfig", "SetShuffling", "SetSummation", "SetTask", "SetTaskConfig"]


@dataclass(frozen=True)
class SetTaskConfig:
    """Which distribution over sets to learn; the defaults are the paper's."""

    kind: Literal["sets/shuffling", "sets/summation"]
    size: int = 16  # elements, and categories
    total: int = 42  # what the elements of a summation set add up to

    def make(self) -> SetTask:
        """The task itself."""
        return (
            SetShuffling(self.size) if self.kind == "sets/shuffling" else SetSummation(self.size, self.total)
        )
