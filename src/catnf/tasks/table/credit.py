"""The paper's table: nine attributes of the German credit data."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from catnf.errors import InputError, StorageError
from catnf.tasks.files import data_folders, find_data
from catnf.tasks.table.data import CategoricalTable
from catnf.tasks.task import Split

FILE = "tabular/credit-g.csv"
ADDRESS = "https://www.openml.org/d/31"

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
        found = find_data(FILE)
        if found is None:
            raise StorageError(
                f"The credit data are not there; get them from {ADDRESS} as CSV and put them into "
                f"{data_folders()[0] / FILE}."
            )
        return read_credit(found)


def read_credit(path: Path) -> Tensor:
    """The nine attributes of a CSV file with OpenML's names, as categories `[1000, 9]`."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise StorageError(
            f"{path} cannot be read as the credit data; get it again from {ADDRESS}."
        ) from error
    codes = {name: {label: code for code, label in enumerate(labels)} for name, labels in COLUMNS.items()}
    try:
        x = torch.tensor([[codes[name][row[name].strip("'")] for name in COLUMNS] for row in rows])
    except (KeyError, AttributeError) as error:
        raise StorageError(
            f"{path} has no column or value {error}; get the credit data again from {ADDRESS}."
        ) from error
    if len(x) != ROWS:
        raise StorageError(f"{path} has {len(x)} rows, not {ROWS}; get the credit data again from {ADDRESS}.")
    return x
