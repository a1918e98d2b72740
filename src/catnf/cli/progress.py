"""Progress bars that commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from catnf.cli.base import messages, stopping

if TYPE_CHECKING:  # bars take a tenth of a second to import, and most commands show none
    from rich.progress import Progress, TaskID


def counting_bar(quiet: bool = False) -> Progress:
    """Bars that tell how many are done, and how long the rest will take."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

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
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    bars = named_bars(Progress(*columns, console=messages), "Downloading ")
    with stopping("Stopped; the same command goes on from here."), bars as show:
        yield show
