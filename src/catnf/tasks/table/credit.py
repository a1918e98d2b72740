"""The paper's table: nine attributes of the German credit data."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from catnf.errors import InputError, StorageError
from catnf.tasks.files import need_data
from catnf.tasks.table.data import CategoricalTable
from catnf.tasks.table.sources import COMMAND, FILE
from catnf.tasks.task import Split

ROWS = 1000
SPLITS: dict[str, slice] = {
    "train": slice(0, 750),
    "validation": slice(750, 850),
    "test": slice(850, 1000),
}

COLUMNS: dict[str, tuple[str, ...]] = {
    "checking_status": ("no checking", "<0", "0<=X<200", ">=200"),
    "credit_history": (
        "no credits/all paid",
        "all paid",
        "existing paid",
        "delayed previously",
        "critical/other existing credit",
    ),
    "savings_status": ("no known savings", "<100", "100<=X<500", "500<=X<1000", ">=1000"),
    "employment": ("unemployed", "<1", "1<=X<4", "4<=X<7", ">=7"),
    "housing": ("rent", "own", "for free"),
    "job": (
        "unemp/unskilled non res",
        "unskilled resident",
        "skilled",
        "high qualif/self emp/mgmt",
    ),
    "own_telephone": ("none", "yes"),
    "foreign_worker": ("yes", "no"),
    "class": ("good", "bad"),
}
"""The paper's attributes with all their values."""


@dataclass(frozen=True)
class CreditRisk(CategoricalTable):
    """750 rows to train with, 100 to validate and 150 to test, in the file's order.

    The file is read when it is first needed: a trained model draws rows without it.
    """

    share_redrawn: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.share_redrawn < 1:
            raise InputError(f"task.redrawn is {self.share_redrawn}; give a share from 0 to below 1.")

    @property
    def name(self) -> str:
        return "table/credit"

    @property
    def redrawn(self) -> float:
        return self.share_redrawn

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        return COLUMNS

    def rows(self, split: Split | str) -> Tensor:
        return self._all[SPLITS[split]]

    @cached_property
    def _all(self) -> Tensor:
        return read_credit(need_data(FILE, COMMAND))


def read_credit(path: Path) -> Tensor:
    """The nine attributes of a CSV file with OpenML's names, as categories `[1000, 9]`."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise StorageError(
            f"{path} cannot be read as the credit data; remove it and make it again with {COMMAND}."
        ) from error
    codes = {name: {label: code for code, label in enumerate(labels)} for name, labels in COLUMNS.items()}
    try:
        x = torch.tensor([[codes[name][row[name].strip("'")] for name in COLUMNS] for row in rows])
    except (KeyError, AttributeError) as error:
        raise StorageError(
            f"{path} has no column or value {error}; remove it and make it again with {COMMAND}."
        ) from error
    if len(x) != ROWS:
        raise StorageError(
            f"{path} has {len(x)} rows, not {ROWS}; remove it and make it again with {COMMAND}."
        )
    return x
