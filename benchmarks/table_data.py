"""The tables that tools are compared on: which columns are numbers, which rows are held out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from catnf.tasks.files import need_data

COPY = "copying it there"  # what to do where a file is not found
CAR_SEED = 7
"""Of the rows of car that are held out."""


@dataclass(frozen=True)
class Table:
    """A table, divided.

    Attributes:
        train: rows that tools are fitted to; all but `integers` are text.
        test: rows that they are measured on.
        integers: names of the columns of whole numbers.
        target: the column that classifiers predict.
        split: which rows are which, in words.
        draws: how many synthetic tables figures are averaged over; more where tables are small.
    """

    train: pd.DataFrame
    test: pd.DataFrame
    integers: tuple[str, ...]
    target: str
    split: str
    draws: int

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of every column, as `catnf.tabular.comparison` wants them."""
        return {name: "integer" if name in self.integers else "categorical" for name in self.train.columns}

    @property
    def categorical(self) -> list[str]:
        """Names of the columns that are no numbers."""
        return [name for name in self.train.columns if name not in self.integers]


def credit() -> Table:
    """All columns of the German credit data; the paper's experiment uses nine of them."""
    integers = ("duration", "credit_amount", "age")
    frame = _texts(pd.read_csv(need_data("tabular/credit-g.csv", COPY)), integers)
    split = "rows 0 to 749 to fit, 850 to 999 to measure; 750 to 849 were for choices"
    return Table(frame.iloc[:750], frame.iloc[850:], integers, "class", split, 5)


def car() -> Table:
    """Car evaluation, whose class follows from the six other columns."""
    frame = _texts(pd.read_csv(need_data("tabular/car.csv.xz", COPY)), ())
    order = np.random.default_rng(CAR_SEED).permutation(len(frame))
    count = len(frame) // 4
    split = f"a random quarter to measure (numpy.random.default_rng({CAR_SEED})), the others to fit"
    return Table(frame.iloc[order[count:]], frame.iloc[order[:count]], (), "class", split, 5)


def adult() -> Table:
    """Adult census income; `education-num` is a code of the education and so no number."""
    integers = ("age", "fnlwgt", "capital-gain", "capital-loss", "hours-per-week")
    parts = [
        _texts(pd.read_csv(need_data(f"tabular/adult_{part}.csv.xz", COPY)), integers)
        for part in ("train", "test")
    ]
    return Table(parts[0], parts[1], integers, "income", "the data's own", 1)


TABLES: dict[str, Callable[[], Table]] = {"credit": credit, "car": car, "adult": adult}


def _texts(frame: Any, integers: tuple[str, ...]) -> pd.DataFrame:
    """The frame with all columns but `integers` as text, so that every tool sees the same kinds."""
    others = {name: frame[name].astype(str).astype(object) for name in frame.columns if name not in integers}
    return frame.assign(**others)
