"""One computation at a time, and those that take long in a thread of their own, with progress."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from catnf.errors import CatnfError

_LAST_STOP = 10.0  # seconds that a computation gets to end when the studio does

Report = Callable[[float, str], None]
"""Is told the share of the work that is done, and in words what is being done."""


class BusyError(CatnfError, RuntimeError):
    """Something else is being computed."""


class StoppedError(CatnfError, RuntimeError):
    """Somebody asked for the end of a computation."""


@dataclass(frozen=True)
class Progress:
    """How far a long computation is.

    Attributes:
        id: its name.
        state: whether it goes on.
        share: of the work that is done.
        doing: what is being done.
        seconds: since its start, until its end.
        result: once it is done.
        problem: one sentence, where it failed.
    """

    id: str
    state: Literal["running", "done", "failed", "stopped"] = "running"
    share: float = 0.0
    doing: str = ""
    seconds: float = 0.0
    result: Any = None
    problem: str = ""

    def told(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


class Desk:
    """Lets one computation in at a time, and refuses the others at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._doing = ""
        self._progress: Progress | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def alone(self, doing: str) -> Iterator[None]:
        """Holds the desk; `doing` tells others what for, as in "drawing molecules"."""
        self._enter(doing)
        try:
            yield
        finally:
            self._lock.release()

    def start(self, doing: str, prepare: Callable[[], Callable[[Report], Any]]) -> Progress:
        """Prepare something, here, and do what comes of that in a thread.

        Args:
            doing: tells others what for.
            prepare: may refuse; gives what takes long, which reports how far it is.
        """
        self._enter(doing)
        try:
            work = prepare()
            self._stop.clear()
            self._progress = Progress(secrets.token_hex(8), doing=doing)
            self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
            self._thread.start()
        except BaseException:
            self._lock.release()
            raise
        return self._progress

    def progress(self, name: str) -> Progress | None:
        """Of the computation with that name; `None` where it is unknown, or another one came after it."""
        now = self._progress
        return now if now is not None and now.id == name else None

    def stop(self, name: str) -> None:
        """Ask the computation with that name to end; it does so at its next report."""
        if self.progress(name) is not None:
            self._stop.set()

    def close(self) -> None:
        """End whatever runs, and wait for it a little."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_LAST_STOP)

    def _enter(self, doing: str) -> None:
        if not self._lock.acquire(blocking=False):
            raise BusyError(
                f"The studio is {self._doing} and does one thing at a time; try again when that is done."
            )
        self._doing = doing

    def _run(self, work: Callable[[Report], Any]) -> None:
        start = time.monotonic()
        assert self._progress is not None
        now = self._progress

        def report(share: float, doing: str) -> None:
            nonlocal now
            if self._stop.is_set():
                raise StoppedError("Stopped.")
            seconds = time.monotonic() - start
            # Bars do not go back, also where the work turns out to be more than was planned.
            now = replace(now, share=min(1.0, max(now.share, share)), doing=doing, seconds=seconds)
            self._progress = now

        try:
            result = work(report)
            end = replace(now, state="done", share=1.0, result=result)
        except StoppedError:
            end = replace(now, state="stopped")
        except CatnfError as error:
            end = replace(now, state="failed", problem=str(error))
        except Exception as error:  # the thread must not die without a word to the page
            end = replace(now, state="failed", problem=f"This failed: {type(error).__name__}: {error}.")
        self._progress = replace(end, seconds=time.monotonic() - start)
        self._lock.release()  # last, since who comes next has a progress of its own
