"""What a run tells: a progress bar, a CSV of losses, TensorBoard."""

from __future__ import annotations

import csv
from pathlib import Path
from types import TracebackType
from typing import Self

from lightning.fabric.loggers.tensorboard import TensorBoardLogger
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from torch import Tensor

from catnf.errors import StorageError
from catnf.storage import write_text


class LossLog:
    """`losses.csv`: the bound of every step, in bits per variable.

    Args:
        path: the file; rows of steps that a resumed run will make again are dropped.
        step: the number of steps already made.
    """

    def __init__(self, path: Path, step: int) -> None:
        self.path = path
        rows = [row for row in self._rows() if int(row[0]) <= step]
        write_text(path, "".join(f"{first},{second}\n" for first, second in [("step", "bits"), *rows]))

    def append(self, first: int, bits: Tensor) -> None:
        """Add the steps after `first`, `bits: [steps]`."""
        # repr keeps every digit, so that two runs can be compared exactly.
        rows = "".join(f"{first + i + 1},{b!r}\n" for i, b in enumerate(bits.tolist()))
        try:
            with self.path.open("a", newline="") as file:
                file.write(rows)
        except OSError as error:
            raise StorageError(f"Cannot write {self.path}: {error.strerror}; free some space.") from error

    def read(self) -> tuple[list[int], list[float]]:
        """Steps and bits."""
        rows = self._rows()
        return [int(row[0]) for row in rows], [float(row[1]) for row in rows]

    def _rows(self) -> list[list[str]]:
        if not self.path.exists():
            return []
        with self.path.open(newline="") as file:
            # A killed writer may leave a last row cut short.
            return [row for row in list(csv.reader(file))[1:] if len(row) == 2 and row[1]]


class Progress:
    """A bar on standard error: loss in bits, steps per second, time left."""

    def __init__(self, total: int, done: int, optimum: float | None, shown: bool) -> None:
        self.target = "" if optimum is None else f" (optimum {optimum:.4f})"
        self.total = total
        self.bar = RichProgress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not shown,
        )
        self.task = self.bar.add_task("starting", total=total, completed=done, rate="")

    def update(self, step: int, bits: float, share: float) -> None:
        """Show the state after `step` steps; as many as fit are left where a `share` of a budget is spent."""
        total = self.total if share == 0.0 else min(self.total, round(step / share))
        speed = self.bar.tasks[0].speed
        rate = "" if not speed else f"{speed:.1f} steps/s"
        description = f"{bits:.4f} bits{self.target}"
        self.bar.update(self.task, completed=step, total=total, description=description, rate=rate)

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()


class TensorBoard:
    """Scalars for TensorBoard, or nothing where `folder` is `None`."""

    def __init__(self, folder: Path | None) -> None:
        self.logger = (
            None if folder is None else TensorBoardLogger(folder.parent, name=folder.name, version="")
        )

    def write(self, step: int, bits: float, learning_rate: float) -> None:
        """Log the scalars of a step."""
        if self.logger is not None:
            self.logger.log_metrics({"bits": bits, "learning_rate": learning_rate}, step)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.logger is not None:
            self.logger.finalize("success" if kind is None else "failed")
