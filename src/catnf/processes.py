"""Work on many items in several processes."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TypeVar

from catnf.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")

_CHUNK = 2000  # items, such as molecules, that a process gets at once: a fraction of a second of work


def map_chunks(
    function: Callable[[Sequence[Item]], list[Result]],
    items: Sequence[Item],
    workers: int = 1,
    at_once: int = _CHUNK,
    progress: Callable[[int], None] = lambda count: None,
) -> list[Result]:
    """`function` of all items, in order, computed piece by piece as by `in_processes`.

    `function` gets some of the items and gives a result for each. A process gets `at_once` items at a time;
    `progress` is called with the number of further items that are done.
    """
    pieces = [items[start : start + at_once] for start in range(0, len(items), at_once)]
    found: list[Result] = []
    for results in in_processes(function, pieces, workers):
        found += results
        progress(len(results))
    return found


def in_processes(
    function: Callable[[Item], Result], pieces: Sequence[Item], workers: int
) -> Iterator[Result]:
    """`function` of every piece, in order, computed in up to `workers` processes.

    It must be importable, since fresh processes run it. With one worker, or one piece, nothing but this
    process is used.
    """
    if workers < 1:
        raise InputError(f"workers is {workers}; give at least 1.")
    if workers == 1 or len(pieces) < 2:
        yield from map(function, pieces)
        return
    # Fresh processes: forks of one that has used torch may hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(pieces)), context) as pool:
        with _deaf_to_ctrl_c():
            futures = [pool.submit(function, piece) for piece in pieces]
        try:
            for future in futures:
                yield future.result()
        except BrokenProcessPool as error:
            raise InputError("A worker was killed, maybe for its memory; try again with fewer.") from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Processes that are started here do not hear Ctrl-C: this one does, and stops them."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
