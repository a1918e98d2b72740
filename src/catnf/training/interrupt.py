"""Ctrl-C as a request instead of an exception."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Self


class Interrupt:
    """While active, the first SIGINT or SIGTERM only sets `requested`; a second one acts as always."""

    def __init__(self) -> None:
        self.requested = False
        self._old: dict[int, object] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self._old[number] = signal.signal(number, self._handle)
            except ValueError:  # not in the main thread, where Python cannot set handlers
                return self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        self._restore()

    def _restore(self) -> None:
        while self._old:
            number, handler = self._old.popitem()
            signal.signal(number, handler)  # type: ignore[arg-type]
