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
    function: Callable[[Sequence[Item]], list[Result]], items: Sequence[Item], workers: int = 1
) -> list[Result]:
    """`function` of all items, in order, computed piece by piece in `workers` processes.

    `function` gets some of the items and gives a result for each; it must be importable, since fresh
    processes run it. With one worker, or few items, nothing but this process is used.
    """
    if workers < 1:
        raise InputError(f"workers is {workers}; give at least 1.")
    pieces = [items[start : start + _CHUNK] for start in range(0, len(items), _CHUNK)]
    if workers == 1 or len(pieces) < 2:
        return [result for piece in pieces for result in function(piece)]
    # Fresh processes: forks of one that has used torch may hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(pieces)), context) as pool:
        return [result for results in pool.map(function, pieces) for result in results]
