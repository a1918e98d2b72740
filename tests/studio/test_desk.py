"""One computation at a time, with progress that ends in one of three ways."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from catnf.errors import InputError
from catnf.studio.desk import BusyError, Desk, Progress, Report

Work = Callable[[Report], Any]


def ended(desk: Desk, begun: Progress) -> Progress:
    deadline = time.monotonic() + 20
    while (now := desk.progress(begun.id)) is not None and now.state == "running":
        assert time.monotonic() < deadline
        time.sleep(0.005)
    assert now is not None
    return now


def test_a_second_is_refused_until_the_first_has_left() -> None:
    desk = Desk()
    with desk.alone("thinking"):
        with pytest.raises(BusyError, match="The studio is thinking"), desk.alone("reading"):
            pass
        with pytest.raises(BusyError):
            desk.start("reading", lambda: lambda report: None)
    with pytest.raises(ZeroDivisionError), desk.alone("failing"):
        1 / 0  # noqa: B018
    with desk.alone("reading"):
        pass


def test_of_many_at_once_one_gets_in() -> None:
    desk, inside, refused = Desk(), [], []
    together = threading.Barrier(8)
    deadline = time.monotonic() + 20

    def enter() -> None:
        together.wait()
        try:
            with desk.alone("counting"):
                inside.append(1)
                while len(refused) < 7 and time.monotonic() < deadline:
                    time.sleep(0.01)
        except BusyError:
            refused.append(1)

    threads = [threading.Thread(target=enter) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(inside), len(refused)) == (1, 7)


def test_progress_and_result() -> None:
    desk = Desk()
    go = threading.Event()

    def work(report: Report) -> str:
        report(0.5, "half")
        report(0.3, "more than was planned")
        go.wait(20)
        return "found"

    begun = desk.start("looking", lambda: work)
    deadline = time.monotonic() + 20
    while desk.progress(begun.id).doing != "more than was planned":  # type: ignore[union-attr]
        assert time.monotonic() < deadline
    assert desk.progress(begun.id).share == 0.5  # type: ignore[union-attr]
    assert desk.progress("another") is None
    go.set()
    end = ended(desk, begun)
    assert (end.state, end.share, end.result, end.problem) == ("done", 1.0, "found", "")
    ended(desk, desk.start("looking", lambda: lambda report: None))
    assert desk.progress(begun.id) is None, "only the last one is kept"


def test_a_refusal_before_the_start_frees_the_desk() -> None:
    def prepare() -> Work:
        raise InputError("No.")

    desk = Desk()
    with pytest.raises(InputError):
        desk.start("looking", prepare)
    with desk.alone("reading"):
        pass


@pytest.mark.parametrize(
    ("error", "problem"),
    [(InputError("Give more."), "Give more."), (KeyError("x"), "This failed: KeyError: 'x'.")],
    ids=["ours", "others"],
)
def test_failures_are_told(error: Exception, problem: str) -> None:
    def work(report: Report) -> None:
        raise error

    desk = Desk()
    end = ended(desk, desk.start("looking", lambda: work))
    assert (end.state, end.problem) == ("failed", problem)


@pytest.mark.parametrize("way", ["stop", "close"])
def test_stopping(way: str) -> None:
    def work(report: Report) -> None:
        while True:
            report(0.1, "going on")
            time.sleep(0.01)

    desk = Desk()
    begun = desk.start("looking", lambda: work)
    desk.stop("another")
    time.sleep(0.05)
    assert desk.progress(begun.id).state == "running"  # type: ignore[union-attr]
    desk.stop(begun.id) if way == "stop" else desk.close()
    assert ended(desk, begun).state == "stopped"
    # What was stopped does not stop what comes next.
    assert ended(desk, desk.start("looking", lambda: lambda report: report(1.0, ""))).state == "done"
