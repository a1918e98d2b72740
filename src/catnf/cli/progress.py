"""Progress bars that commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from catnf.cli.base import messages


def counting_bar(quiet: bool = False) -> Progress:
    """Bars that tell how many are done, and how long the rest will take."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=messages, disable=quiet)


@contextmanager
def named_bars(progress: Progress, before: str = "") -> Iterator[Callable[[str, int, int], None]]:
    """Gives `show(name, done, total)`, which has a bar for every name, once there is one."""
    bars: dict[str, TaskID] = {}

    def show(name: str, done: int, total: int) -> None:
        if name not in bars:
            progress.start()  # the second time it does nothing
            bars[name] = progress.add_task(before + name)
        progress.update(bars[name], completed=done, total=total or None)

    try:
        yield show
    finally:
        if bars:
            progress.stop()


@contextmanager
def download_bars() -> Iterator[Callable[[str, int, int], None]]:
    """`named_bars` in bytes, of files that have to be downloaded.

    Ctrl-C ends the program with one sentence, since what was downloaded is kept.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    try:
        with named_bars(Progress(*columns, console=messages), "Downloading ") as show:
            yield show
    except KeyboardInterrupt:
        messages.print("Stopped; the same command goes on from here.")
        raise typer.Exit(130) from None
