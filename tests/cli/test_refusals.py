"""Commands that cannot be read are refused in one sentence of ours."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

COUNTS = "graphs to train, validate and test with, for instance 20000 500 500."


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["train", "x", "--device=tpu"], "--device is 'tpu'; choose from auto, cpu, cuda."),
        (["reproduce", "set"], "TABLE is 'set'; choose from sets, coloring, molecules, text, credit, all."),
        (["data", "table", "cars"], "NAME is 'cars'; choose from credit."),
        (["sample", "run", "-n", "1.5"], "-n is '1.5'; give an integer."),
        (["sample", "run", "--seed", "nan"], "--seed is 'nan'; give an integer."),
        (["sample", "run", "--temperature", ""], "--temperature is ''; give a number."),
        (["sample", "run", "-n"], "-n needs a value: how many."),
        (["sample", "run", "--tempratur=2"], "There is no option --tempratur; did you mean --temperature?"),
        (["sample", "run", "-z"], "There is no option -z; see catnf sample --help."),
        (["sample", "run", "more"], "more is more than catnf sample takes; leave it out, or see"),
        (["fit"], "FILE is missing: table: .csv, .tsv or .parquet; see catnf fit --help."),
        (["fit", "data.csv"], "--output is missing: folder, or file ending in .safetensors; see"),
        (["score"], "FILE is missing: SMILES"),
        (["score", "model", "a.csv", "b.csv"], "b.csv is more than a model and a file; leave it out."),
        (["data", "txt"], "There is no command 'txt'. Did you mean 'text'?"),
        (["data", "coloring", "--counts", "5"], f"--counts needs 3 values: {COUNTS}"),
        (
            ["data", "coloring", "--counts", "5", "-o", "x.npz"],
            f"--counts takes 3 integers, of which '-o' is none: {COUNTS}",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_read(run_catnf: Run, arguments: list[str], told: str) -> None:
    done = run_catnf(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"catnf: {told}")
    assert done.err.count("\n") == 1
    assert "Value error" not in done.err


KNOWN = "ptb, text8, text8-words, wikitext2, wikitext103"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["data", "text", "ptbb"], f"'ptbb' is neither a file nor one of {KNOWN}; did you mean ptb?"),
        (["data", "text", "mine"], f"'mine' is neither a file nor one of {KNOWN}; check the path."),
        (["data", "text", "."], f"'.' is a folder; give a file or one of {KNOWN}."),
        (["data", "molecules", "zinc"], "nor one of zinc250k, moses; did you mean zinc250k?"),
        (["train", "text", "--text", "."], "'.' is a folder; give a file."),
        (["train", "molecules", "--smiles", "no.smi"], "There is no file 'no.smi'; check the path."),
        (["train", "text", "--text", "a", "--smiles", "b"], "--smiles and --text are both given"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_sources_that_are_not_there(run_catnf: Run, tmp_path: Path, arguments: list[str], told: str) -> None:
    done = run_catnf(*arguments)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert told in done.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "command",
    [
        ["sample", "notes.md"],
        ["evaluate", "data.csv"],
        ["export", "data.csv", "-o", "x.safetensors"],
        ["score", "notes.md", "data.csv"],
        ["score", "notes.md", "mine.smi"],
        ["color", "edges.txt", "--model", "data.csv"],
        ["report", "data.csv", "data.csv"],
    ],
    ids=" ".join,
)
def test_what_is_no_model(run_catnf: Run, tmp_path: Path, command: list[str]) -> None:
    if command[0] in ("color", "report"):
        pytest.importorskip("networkx")
        pytest.importorskip("sklearn")
    for name, content in (("notes.md", "# Notes\n"), ("data.csv", "a,b\n1,2\n"), ("mine.smi", "CCO\n")):
        (tmp_path / name).write_text(content)
    (tmp_path / "edges.txt").write_text("1 2\n")
    done = run_catnf(*command)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "is no model" in done.err
    assert ".safetensors file" in done.err


@pytest.mark.parametrize("name", ["out.csv", "folder/out.csv"])
def test_outputs_that_cannot_be_written(run_catnf: Run, tmp_path: Path, name: str) -> None:
    """Before any work, and a device is not replaced by a file."""
    mixture = "sets/shuffling/mixture"
    (tmp_path / "folder").write_text("mine")
    os.mkfifo(tmp_path / "out.csv")
    done = run_catnf("sample", mixture, "-n", 1, "-o", name)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert ("no ordinary file" if name == "out.csv" else "folder is a file, not a folder") in done.err
    assert (tmp_path / "out.csv").is_fifo()
    assert "folder; give the name of a file in it" in run_catnf("sample", mixture, "-o", "..").err


def test_samples_are_no_parquet(run_catnf: Run, tmp_path: Path) -> None:
    done = run_catnf("sample", "sets/shuffling/mixture", "-n", 1, "-o", "x.parquet")
    assert done.err == "catnf: The output is x.parquet, but CSV is written; give a name that ends in .csv.\n"
    done = run_catnf("sample", "text/text8/mixture", "-n", 1, "-o", "x.csv")
    assert "a text in a line is written; give a name that ends in .txt." in done.err
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("default")
def test_warnings_are_sentences(run_catnf: Run) -> None:
    done = run_catnf("sample", "sets/shuffling/mixture", "-n", 3, "--temperature", 1e300, "--seed", 0)
    assert done.code == 0
    assert "latents were inverted inexactly while sampling." in done.err.splitlines()[0]
    assert "UserWarning" not in done.err
