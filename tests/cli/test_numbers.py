"""Every option that takes numbers refuses those without a meaning, under its own name."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import pytest

from catnf.cli import app
from catnf.cli.base import data

Run = Callable[..., Any]


def numeric_options() -> Iterator[tuple[list[str], str, type, int]]:
    """Commands with their options that take numbers: the command, the option, of which type, how many."""
    for program, before in ((app, []), (data, ["data"])):
        for command in program.registered_commands:
            assert command.callback is not None
            name = (command.name or command.callback.__name__).strip("_")
            for field, hint in get_type_hints(command.callback, include_extras=True).items():
                if get_origin(hint) is not Annotated:
                    continue
                kind, option = get_args(hint)[:2]
                if get_origin(kind) in (Union, types.UnionType):
                    kind = next(one for one in get_args(kind) if one is not type(None))
                several = len(get_args(kind)) if get_origin(kind) is tuple else 1
                kind = get_args(kind)[0] if several > 1 else kind
                if kind in (int, float):
                    long = [shown for shown in option.param_decls or () if shown.startswith("--")]
                    yield [*before, name], (long or [f"--{field.replace('_', '-')}"])[0], kind, several


OPTIONS = list(numeric_options())


def test_there_are_options() -> None:
    names = {f"{' '.join(command)} {option}" for command, option, *_ in OPTIONS}
    assert {"fit --steps", "sample --number", "data coloring --counts", "studio --port"} <= names


@pytest.mark.parametrize(
    ("command", "option", "kind", "several"), OPTIONS, ids=[f"{' '.join(o[0])} {o[1]}" for o in OPTIONS]
)
def test_no_option_takes_what_has_no_meaning(
    run_catnf: Run, command: list[str], option: str, kind: type, several: int
) -> None:
    for value in ("-1", "9" * 30, "many") if kind is int else ("-1", "nan", "inf", "many"):
        done = run_catnf(*command, option, *[value] * several)
        assert (done.code, done.out) == (2, ""), (value, done.err)
        assert done.err.startswith(f"catnf: {option} "), (value, done.err)
        assert value in done.err
        assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["fit", "data.csv", "--steps", 0], "--steps is 0; give at least 1."),
        (["sample", "run", "-n", 0], "-n is 0; give at least 1."),
        (["sample", "run", "--number=-3"], "--number is -3; give at least 1."),
        (["sample", "run", "--temperature", 0], "--temperature is 0.0; give a finite number above 0."),
        (["train", "x", "--seed", 2**32], "--seed is 4294967296; give one from 0 to 4294967295."),
        (["train", "x", "--max-time=-1"], "--max-time is -1.0; give at least 0."),
        (["bench", "--batch", 10**10], "--batch is 10000000000; give at most 1,000,000,000."),
        (["data", "coloring", "--counts", 3, -1, 0], "--counts is -1; give at least 0."),
        (["data", "coloring", "--counts", 0, 0, 0], "--counts are all 0; give at least one graph"),
    ],
)
def test_the_option_is_named_as_it_was_typed(run_catnf: Run, arguments: list[object], told: str) -> None:
    assert told in run_catnf(*arguments).err
