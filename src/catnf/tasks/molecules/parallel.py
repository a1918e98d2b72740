"""Work on lists of molecules in several processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

from catnf.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")

_CHUNK = 2000  # molecules that a process gets at once: a fraction of a second of work


def map_chunks(
    function: Callable[[Sequence[Item]], list[Result]],
    items: Sequence[Item],
    workers: int = 1,
    at_once: int = _CHUNK,
    progress: Callable[[int], None] = lambda count: None,
) -> list[Result]:
    """`function` of all items, in order, computed piece by piece in `workers` processes.

    `function` gets some of the items and gives a result for each; it must be importable, since fresh
    processes run it. With one worker, or few items, nothing but this process is used. A process gets
    `at_once` items at a time; `progress` is called with the number of further items that are done.
    """
    if workers < 1:
        raise InputError(f"workers is {workers}; give at least 1.")
    pieces = [items[start : start + at_once] for start in range(0, len(items), at_once)]
    found: list[Result] = []
    if workers == 1 or len(pieces) < 2:
        for piece in pieces:
            found += function(piece)
            progress(len(piece))
        return found
    # Fresh processes: forks of one that has used torch may hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(pieces)), context) as pool:
        for results in pool.map(function, pieces):
            found += results
            progress(len(results))
    return found
