"""A text file that grows while it is made, and has its name only when it is complete."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from catnf.storage import cannot_write, check_ordinary, temporary_path


class LineFile:
    """Lines that stream to disk, however many there are.

    They go to a temporary file beside `path`, which `finish` moves there. `keep` moves what is complete to
    another name, for work that is stopped; without either nothing is left behind.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._temporary = temporary_path(path)
        self._complete = 0  # bytes of whole pieces

    def __enter__(self) -> Self:
        check_ordinary(self.path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self._temporary, "xb")
        except OSError as error:
            raise cannot_write(self.path, error) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):  # it is not there any more where it was finished or kept
            self._temporary.unlink()

    def write(self, lines: list[str]) -> None:
        """Append lines; they are kept together or not at all."""
        try:
            self._file.write("".join(f"{line}\n" for line in lines).encode())
            self._file.flush()
        except OSError as error:
            raise cannot_write(self.path, error) from error
        self._complete = self._file.tell()

    def finish(self) -> None:
        """All is written: give the file its name."""
        self._move(self.path)

    def keep(self) -> Path:
        """Give what is written so far a name that tells it is not all: `out.partial.csv` for `out.csv`."""
        partial = self.path.with_name(f"{self.path.stem}.partial{self.path.suffix}")
        self._move(partial)
        return partial

    def _move(self, target: Path) -> None:
        try:
            self._file.truncate(self._complete)  # an interrupt may have come in the middle of a piece
            os.fsync(self._file.fileno())
            self._file.close()
            os.replace(self._temporary, target)
        except OSError as error:
            raise cannot_write(target, error) from error
