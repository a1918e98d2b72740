"""Work in several processes."""

from __future__ import annotations

import os
import signal

import pytest

from catnf.errors import InputError
from catnf.processes import in_processes, map_chunks


def test_results_come_in_order_whatever_the_number_of_workers() -> None:
    done: list[int] = []
    assert map_chunks(sorted, [3, 1, 2, 0], workers=2, at_once=2, progress=done.append) == [1, 3, 0, 2]
    assert done == [2, 2]
    assert map_chunks(sorted, [3, 1, 2, 0], workers=1, at_once=2) == [1, 3, 0, 2]
    assert map_chunks(sorted, [], workers=2) == []


def test_what_cannot_work_is_one_sentence() -> None:
    with pytest.raises(InputError, match="workers is 0"):
        map_chunks(sorted, [3, 1], workers=0)
    with pytest.raises(InputError, match="A worker was killed"):
        list(in_processes(os._exit, [1, 2], workers=2))


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="Windows has no signal masks")
def test_workers_leave_ctrl_c_to_the_process_that_started_them() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert list(in_processes(signal.raise_signal, [signal.SIGINT] * 3, workers=2)) == [None] * 3
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
