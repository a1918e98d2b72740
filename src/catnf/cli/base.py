"""What all commands share: the program, its options, and how it refuses."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, NoReturn

# Idle threads that spin long make small steps many times slower where other programs want the cores too.
# Read once, when torch is loaded.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

import torch
import typer
from rich.console import Console

from catnf import __version__
from catnf.errors import CatnfError, InputError

try:
    from typer import TyperException as UsageError
except ImportError:  # older releases raise click's own
    from click import ClickException as UsageError  # type: ignore[no-redef,assignment,import-not-found,unused-ignore]

app = typer.Typer(
    help="Normalizing flows on categorical data.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
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
    try:
        code = app(standalone_mode=False)
    except CatnfError as error:
        _refuse(str(error))
    except UsageError as error:  # options that cannot be read
        _refuse(error.format_message())
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


def check_archive_name(path: Path) -> None:
    """Refuse the name of a data set that is not that of an archive of arrays."""
    if path.suffix != ".npz":
        raise InputError(f"The output is {path}; give a name that ends in .npz.")


def check_not_input(output: Path | None, given: Path) -> None:
    """Refuse to write over what is read."""
    if output is not None and output.exists() and given.exists() and output.samefile(given):
        raise InputError(f"The output is {output}, which is read; give another name.")


def check_picture_name(path: Path) -> None:
    """Refuse the name of a picture of another kind than is drawn."""
    if path.suffix.lower() != ".png":
        raise InputError(f"The picture is {path}; give a name that ends in .png.")


def typed_command() -> str:
    """What was typed, as it could be typed again."""
    return shlex.join(["catnf", *sys.argv[1:]])
