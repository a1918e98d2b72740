"""What all commands share: the program, its options, and how it refuses."""

from __future__ import annotations

import csv
import difflib
import io
import os
import shlex
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, NoReturn, TextIO

# Idle threads that spin long make small steps many times slower where other programs want the cores too.
# Read once, when torch is loaded.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

import torch
import typer
from rich.console import Console

from catnf import __version__
from catnf.cli.refusals import sentence
from catnf.errors import CatnfError, InputError
from catnf.storage import check_ordinary

try:
    from typer import TyperException as UsageError
except ImportError:  # older releases raise click's own
    from click import ClickException as UsageError  # type: ignore[no-redef,assignment,import-not-found,unused-ignore]

app = typer.Typer(
    help="Normalizing flows on categorical data.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data = typer.Typer(help="Make data sets.", no_args_is_help=True)
app.add_typer(data, name="data")
messages = Console(stderr=True, markup=False, highlight=False, soft_wrap=True)

Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="Change a field, e.g. model.mixtures=16; repeatable.")
]
Device = Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="Where to compute.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def main() -> None:
    """Entry point: errors that a user can fix are one sentence and exit code 2."""
    warnings.showwarning = _tell_warning
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what a screen cannot show is no reason to end
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(standalone_mode=False)
    except CatnfError as error:
        _refuse(str(error))
    except UsageError as error:  # options that cannot be read
        _refuse(sentence(error, typer.main.get_command(app)))
    except (MemoryError, RuntimeError) as error:
        if "busy or unavailable" in str(error):
            _refuse("The GPU is busy or unavailable; try again, or use --device cpu.")
        if not isinstance(error, MemoryError) and "memory" not in str(error):
            raise
        _refuse("Memory does not suffice; use smaller sizes, batches or numbers of samples.")
    except OSError as error:  # the disk fills up, a folder disappears
        _refuse(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}.")
    sys.exit(code)


def _refuse(sentence: str) -> NoReturn:
    if sentence and not is_helper():
        print(f"catnf: {' '.join(sentence.split())}", file=sys.stderr)
    sys.exit(2)


def _tell_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning of our own is a sentence; others keep the place that they come from."""
    own = category is UserWarning and Path(filename).is_relative_to(Path(__file__).parent.parent)
    whole = warnings.formatwarning(message, category, filename, lineno, line).rstrip()
    messages.print(str(message) if own else whole)


def is_helper() -> bool:
    """Whether this is one of several processes of a training, of which the first one speaks."""
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized() and distributed.get_rank() > 0


def is_launched_helper() -> bool:
    """The same, before the processes know each other."""
    return any(os.environ.get(name, "0") != "0" for name in ("RANK", "LOCAL_RANK"))


def _version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False,
) -> None:
    pass


def chosen_device(asked: str) -> torch.device:
    """Where to compute; of several processes of a machine that `torchrun` started each has its own GPU."""
    if asked == "cuda" and not torch.cuda.is_available():
        raise InputError("Device cuda was asked for, but torch sees no GPU; use --device cpu.")
    if asked == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    own = int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count()
    if own > 0:
        torch.cuda.set_device(own)  # kernels go where this points, not where their tensors are
    return torch.device("cuda", own) if own else torch.device("cuda")


@contextmanager
def stopping(sentence: str) -> Iterator[None]:
    """Work that Ctrl-C ends with exit code 130, after a `sentence` on what is left of it."""
    try:
        yield
    except KeyboardInterrupt:
        messages.print(sentence)
        raise typer.Exit(130) from None


def check_output(path: Path | None) -> None:
    """Refuse a file that cannot be written before the work whose outcome is to be there."""
    if path is None:
        return
    check_ordinary(path)
    above = next((folder for folder in path.parents if folder.exists()), Path())
    if not above.is_dir():
        raise InputError(f"The output is {path}, but {above} is a file, not a folder; choose another one.")
    if not os.access(above, os.W_OK):
        raise InputError(f"The output is {path}, but {above} cannot be written into; choose another one.")


def check_archive_name(path: Path) -> None:
    """Refuse the name of a data set that is not that of an archive of arrays."""
    if path.suffix != ".npz":
        raise InputError(f"The output is {path}; give a name that ends in .npz.")
    check_output(path)


def check_source(source: str, known: Sequence[str] = ()) -> None:
    """Refuse what is neither one of the `known` names nor a file, or a pipe."""
    path, names = Path(source), ", ".join(known)
    if source in known or (path.exists() and not path.is_dir()):
        return
    if path.is_dir():
        raise InputError(f"{source!r} is a folder; give a file{f' or one of {names}' if known else ''}.")
    if not known:
        raise InputError(f"There is no file {source!r}; check the path.")
    close = difflib.get_close_matches(source, known, n=1)
    fix = f"did you mean {close[0]}?" if close else "check the path."
    raise InputError(f"{source!r} is neither a file nor one of {names}; {fix}")


def check_not_input(output: Path | None, given: Path) -> None:
    """Refuse to write over what is read."""
    if output is not None and output.exists() and given.exists() and output.samefile(given):
        raise InputError(f"The output is {output}, which is read; give another name.")


def check_lines_name(path: Path | None, texts: bool = False) -> None:
    """Refuse the name of a file of another kind than is written: CSV, or a text in a line."""
    kind, suffix = ("a text in a line", ".txt") if texts else ("CSV", ".csv")
    if path is not None and path.suffix.lower() not in ("", ".txt", suffix):
        raise InputError(f"The output is {path}, but {kind} is written; give a name that ends in {suffix}.")
    check_output(path)


def check_picture_name(path: Path) -> None:
    """Refuse the name of a picture of another kind than is drawn."""
    if path.suffix.lower() != ".png":
        raise InputError(f"The picture is {path}; give a name that ends in .png.")
    check_output(path)


def typed_command() -> str:
    """What was typed, as it could be typed again."""
    return shlex.join(["catnf", *sys.argv[1:]])


def as_csv(header: list[str], rows: list[list[object]]) -> str:
    """A CSV file as a text."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([header, *rows])
    return stream.getvalue()
