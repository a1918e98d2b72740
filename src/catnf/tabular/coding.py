"""Whole tables as tensors: elements of categories and columns of numbers, and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from catnf.context import TableContext
from catnf.errors import InputError
from catnf.tabular.frames import needed
from catnf.tabular.schema import Column, decode_column, encode_column

DIRECT = 128
"""A column with more codes than this is written in two digits, each an element of its own: then no table of
means is large, and rows of a column with 10,000 categories cost about as much as of one with 100."""


@dataclass(frozen=True)
class Rows:
    """Encoded rows.

    Attributes:
        x: `[rows, elements]`, categories, int16.
        numbers: `[rows, numeric columns]`, centred and scaled, float32.
        present: `[rows, numeric columns]`, boolean.
        log_extra: `[rows]`, what is added to log-likelihoods for pooled and for unseen values.
        unseen: `[rows, columns]`, true where a value was not seen in fitting.
        known: `[rows, elements]`, false where a category is to be imputed; `None` where all are known.
    """

    x: Tensor
    numbers: Tensor
    present: Tensor
    log_extra: Tensor
    unseen: NDArray[np.bool_]
    known: Tensor | None = None

    def __len__(self) -> int:
        return len(self.x)

    def take(self, index: Tensor | slice) -> tuple[Tensor, TableContext]:
        """Some rows as a model takes them."""
        x, numbers, present = self.x[index].long(), self.numbers[index], self.present[index]
        mask = None if self.known is None else self.known[index]
        return x, TableContext(len(x), x.shape[1], mask, numbers=numbers, present=present)

    def joined(self, other: Rows) -> Rows:
        """These rows and others after them."""
        known = None
        if self.known is not None or other.known is not None:
            parts = [
                torch.ones(rows.x.shape, dtype=torch.bool) if rows.known is None else rows.known
                for rows in (self, other)
            ]
            known = torch.cat(parts)
        return Rows(
            torch.cat([self.x, other.x]),
            torch.cat([self.numbers, other.numbers]),
            torch.cat([self.present, other.present]),
            torch.cat([self.log_extra, other.log_extra]),
            np.concatenate([self.unseen, other.unseen]),
            known,
        )


@dataclass(frozen=True)
class TableCode:
    """How the columns of a table become elements and numbers.

    Attributes:
        columns: in the order of the table.
        rows: how many the model was fitted to; an unseen value counts as one more.
        imputes: whether a gap is a cell that is not known, instead of a value of its own.
    """

    columns: tuple[Column, ...]
    rows: int
    imputes: bool = False
    _places: dict[str, list[int]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _sizes: list[int] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for column in self.columns:
            digits = _digits(column.size) if column.kind != "constant" and column.size > 1 else []
            self._places[column.name] = list(range(len(self._sizes), len(self._sizes) + len(digits)))
            self._sizes.extend(digits)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of categories of every element."""
        return tuple(self._sizes)

    @property
    def numeric(self) -> tuple[Column, ...]:
        """The columns that have numbers."""
        return tuple(column for column in self.columns if column.numeric)

    @property
    def late(self) -> tuple[Tensor | None, Tensor | None]:
        """Which elements and which numeric columns had cells that are not known; `None` where none had."""
        unknown = {place for column in self.columns if column.unknown for place in self.places(column.name)}
        parts = [
            torch.tensor([place in unknown for place in range(len(self._sizes))]),
            torch.tensor([column.unknown for column in self.numeric]),
        ]
        elements, numbers = (part if bool(part.any()) else None for part in parts)
        return elements, numbers

    def places(self, name: str) -> list[int]:
        """The elements that hold a column's codes: none, one, or two digits."""
        return self._places[name]

    def split(self, column: Column, codes: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Codes `[rows]` of a column as its digits."""
        places = self.places(column.name)
        if len(places) < 2:
            return [codes][: len(places)]
        base = self._sizes[places[1]]
        return [codes // base, codes % base]

    def join(self, column: Column, x: NDArray[np.int64]) -> NDArray[np.int64]:
        """The codes `[rows]` of a column from elements `x: [rows, elements]`."""
        places = self.places(column.name)
        if not places:
            return np.zeros(len(x), dtype=np.int64)
        if len(places) == 1:
            return x[:, places[0]]
        codes: NDArray[np.int64] = x[:, places[0]] * self._sizes[places[1]] + x[:, places[1]]
        return np.minimum(codes, column.size - 1)  # the last digits go a little beyond

    def encode(self, frame: Any) -> Rows:
        """Rows of a pandas frame with the fitted columns, in any order."""
        check_columns(frame, [column.name for column in self.columns])
        rows, numeric = len(frame), self.numeric
        x = np.zeros((rows, len(self._sizes)), dtype=np.int16)
        numbers = np.zeros((rows, len(numeric)), dtype=np.float32)
        present = np.zeros((rows, len(numeric)), dtype=bool)
        extra = np.zeros(rows)
        unseen = np.zeros((rows, len(self.columns)), dtype=bool)
        known = np.ones((rows, len(self._sizes)), dtype=bool)
        for index, column in enumerate(self.columns):
            cells = encode_column(column, frame[column.name])
            new = cells.codes < 0
            if column.kind == "constant" and not column.labels:
                new = ~frame[column.name].isna().to_numpy()
            elif self.imputes:
                gaps = frame[column.name].isna().to_numpy()
                known[np.ix_(gaps, self.places(column.name))] = False
                new &= ~gaps
            unseen[:, index] = new
            # Taken for the rarest category of its column, or no number, and less likely than any row seen.
            extra += cells.log_share - new * math.log(self.rows + 1)
            rarest = max(column.size - 1 - column.missing, 0)
            codes = np.where(new, rarest, np.maximum(cells.codes, 0)).astype(np.int64)
            if column.numeric:
                at = numeric.index(column)
                numbers[:, at], present[:, at] = cells.values, cells.present
            for place, digit in zip(self.places(column.name), self.split(column, codes), strict=True):
                x[:, place] = digit
        tensors = (torch.from_numpy(x), torch.from_numpy(numbers), torch.from_numpy(present))
        all_known = bool(known.all())
        return Rows(*tensors, torch.from_numpy(extra), unseen, None if all_known else torch.from_numpy(known))

    def decode(self, x: Tensor, numbers: Tensor, random: np.random.Generator) -> Any:
        """A pandas frame of the fitted columns and dtypes."""
        pandas = needed("pandas")
        plain, values = x.cpu().numpy().astype(np.int64), numbers.cpu().double().numpy()
        numeric, nothing = self.numeric, np.zeros(len(plain))
        columns = {}
        for column in self.columns:
            own = values[:, numeric.index(column)] if column.numeric else nothing
            columns[column.name] = decode_column(column, self.join(column, plain), own, random)
        return pandas.DataFrame(columns)

    def presence(self, x: Tensor) -> Tensor:
        """Which numeric columns of rows `x: [rows, elements]` hold a number: `[rows, numeric columns]`."""
        plain = x.cpu().numpy().astype(np.int64)
        parts = [torch.from_numpy(self.join(column, plain) == 0) for column in self.numeric]
        return torch.stack(parts, dim=1) if parts else torch.zeros(len(x), 0, dtype=torch.bool)

    def frequencies(self, rows: Rows) -> Tensor:
        """How often the categories of every element occur: `[elements, categories]`, 0 where none is."""
        out = torch.zeros(len(self._sizes), max(self._sizes, default=1))
        for element, size in enumerate(self._sizes):
            cells = rows.x[:, element] if rows.known is None else rows.x[rows.known[:, element], element]
            counts = torch.bincount(cells.long(), minlength=size).float().clamp(min=0.5)
            out[element, :size] = counts / counts.sum()
        return out


def check_columns(frame: Any, names: Sequence[str]) -> None:
    """Refuse a frame that lacks fitted columns or has others."""
    lacking = [name for name in names if name not in frame.columns]
    others = [name for name in frame.columns if name not in names]
    if lacking:
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise InputError(f"The table lacks the column {lacking[0]!r}{more}, which the model was fitted with.")
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        raise InputError(f"The model was fitted without the column {others[0]!r}{more}; drop it.")


def _digits(size: int) -> list[int]:
    if size <= DIRECT:
        return [size]
    base = math.isqrt(size - 1) + 1
    return [-(-size // base), base]
