"""Taking turns: processes that get ready side by side and then work one after another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from catnf.errors import StorageError


@contextmanager
def locked(turn: Path | None) -> Iterator[None]:
    """Wait for the lock of the file `turn` and hold it; nothing to wait for where it is `None`."""
    if turn is None:
        yield
        return
    import fcntl  # not on all systems, and not needed elsewhere

    try:
        file = turn.open("w")
    except OSError as error:
        raise StorageError(
            f"Cannot write {turn}: {error.strerror}; choose another file for --turn."
        ) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
