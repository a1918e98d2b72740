"""Tables of categorical columns as a task."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property

import torch
from torch import Tensor

from catnf.context import Context, SetContext
from catnf.errors import InputError
from catnf.tasks.task import Split, Task, check_evaluation, spread


class CategoricalTable(Task):
    """Rows `x: [rows, columns]` of categories, where column `c` has the categories `0 ... sizes[c] - 1`."""

    @property
    @abstractmethod
    def columns(self) -> dict[str, tuple[str, ...]]:
        """The names of the columns and of their categories."""

    @abstractmethod
    def rows(self, split: Split | str) -> Tensor:
        """The rows of `train`, `validation` or `test`: `[rows, columns]`, int64, CPU."""

    @property
    def redrawn(self) -> float:
        """The share of cells of a training batch that are drawn from their column alone.

        That pulls a model towards independent columns, which is what few rows can teach for certain.
        """
        return 0.0

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of categories of every column."""
        return tuple(len(labels) for labels in self.columns.values())

    @property
    def categories(self) -> int:
        return max(self.sizes)

    def batch(self, size: int, generator: torch.Generator) -> tuple[Tensor, SetContext]:
        device = generator.device
        if device not in self._moved:
            self._moved[device] = self.rows("train").to(device)
        rows = self._moved[device]
        chosen = torch.randint(len(rows), (size,), device=device, generator=generator)
        x = rows[chosen]
        if self.redrawn > 0:
            other = torch.randint(len(rows), x.shape, device=device, generator=generator)
            replace = torch.rand(x.shape, device=device, generator=generator) < self.redrawn
            x = torch.where(replace, rows.gather(0, other), x)
        return x, self.context(x)

    @cached_property
    def _moved(self) -> dict[torch.device, Tensor]:
        """Training rows on every device that asked for them: graphs of steps cannot copy them there."""
        return {}

    def column_frequencies(self) -> Tensor:
        """How often the categories of every column occur: `[columns, categories]`, 0 where there is none.

        A category that no training row has counts as half a row.
        """
        try:
            rows = self.rows("train")
        except OSError:  # no data: what a trained model is read into
            rows = torch.zeros(0, len(self.sizes), dtype=torch.int64)
        out = torch.zeros(len(self.sizes), self.categories)
        for column, size in enumerate(self.sizes):
            counts = torch.bincount(rows[:, column], minlength=size).float().clamp(min=0.5)
            out[column, :size] = counts / counts.sum()
        return out

    def frequencies(self) -> Tensor:
        shares = self.column_frequencies().mean(0)
        return shares / shares.sum()

    def evaluation(self, split: Split, limit: int | None = None) -> Tensor:
        check_evaluation(split, limit)
        rows = self.rows(split)
        return rows[spread(len(rows), limit)]

    def context(self, x: Tensor) -> SetContext:
        return SetContext.of(x)

    def sample_context(self, size: int, device: torch.device | str = "cpu") -> SetContext:
        return SetContext(batch=size, elements=len(self.sizes))

    def check(self, x: Tensor) -> None:
        if x.dim() != 2 or x.shape[0] == 0 or x.shape[1] != len(self.sizes):
            raise InputError(
                f"Examples have shape {tuple(x.shape)}; give a tensor [batch, {len(self.sizes)}]."
            )
        wrong = (x < 0) | (x >= torch.tensor(self.sizes, device=x.device))
        if bool(wrong.any()):
            row, column = wrong.nonzero()[0].tolist()
            name, size = list(self.columns)[column], self.sizes[column]
            raise InputError(
                f"Column {name!r} has category {int(x[row, column])} in row {row}; "
                f"give one from 0 to {size - 1}."
            )

    def sample_rows(self, x: Tensor, ctx: Context) -> tuple[list[str], list[list[str]]]:
        labels = list(self.columns.values())
        rows = [[labels[c][value] for c, value in enumerate(row)] for row in x.tolist()]
        return list(self.columns), rows

    def sample_metrics(self, x: Tensor, ctx: Context | None = None) -> dict[str, float]:
        """`copies`, the share of rows that equal a training row; nothing where there are no data."""
        self.check(x)
        try:
            known = {tuple(row) for row in self.rows("train").tolist()}
        except OSError:
            return {}
        return {"copies": sum(tuple(row) in known for row in x.tolist()) / len(x)}


def independent_bits(task: CategoricalTable, split: Split) -> float:
    """Bits per variable of a split under independent columns with one added to every count."""
    train, rows = task.rows("train"), task.rows(split)
    total = 0.0
    for column, size in enumerate(task.sizes):
        counts = torch.bincount(train[:, column], minlength=size).double() + 1.0
        total -= float((counts / counts.sum()).log2()[rows[:, column]].mean())
    return total / len(task.sizes)
