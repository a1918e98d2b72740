"""Tables: rows of categorical columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from catnf.tasks.table.credit import CreditRisk
from catnf.tasks.table.data import CategoricalTable
from catnf.tasks.table.models import TableModelConfig

__all__ = ["CategoricalTable", "CreditRisk", "TableModelConfig", "TableTaskConfig"]


@dataclass(frozen=True)
class TableTaskConfig:
    """Which table to learn."""

    kind: Literal["table"]
    data: Literal["credit"] = "credit"
    redrawn: float = 0.0  # share of cells in training batches that are drawn from their column alone

    def make(self) -> CreditRisk:
        """The task itself."""
        return CreditRisk(self.redrawn)
