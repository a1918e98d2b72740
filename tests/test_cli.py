"""The command line: what it prints where, and how it refuses."""

from __future__ import annotations

import csv
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from safetensors.torch import save_file

from catnf import __version__
from catnf.experiments import experiment_names

OVERRIDES = ["task.size=4", "model.hidden=16", "model.heads=2", "model.blocks=1", "model.layers=2"]
OVERRIDES += ["model.mixtures=2", "training.batch=16", "training.initialization_batches=2"]
TINY = [f"--set={override}" for override in (*OVERRIDES, "training.steps=20")]
MIXTURE = "sets/shuffling/mixture"
FAST = ["--samples=2", "--examples=20", "--generated=20", "--device=cpu"]


class Outcome(NamedTuple):
    code: object
    out: str
    err: str


Catnf = Callable[..., Outcome]


@pytest.fixture
def catnf(run_catnf: Catnf) -> Catnf:
    return run_catnf


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny run, made by the command line itself in a process of its own."""
    folder = tmp_path_factory.mktemp("cli") / "run"
    done = python("train", MIXTURE, *TINY, "--device=cpu", f"--output={folder}")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "20 of 20 steps" in done.stderr
    return folder


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "PYTHONPATH": str(Path(__file__).parents[1] / "src"),
        "OMP_NUM_THREADS": "1",  # more would wait for each other on busy cores
    }
    command = [sys.executable, "-m", "catnf", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def tree(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_refused(outcome: Outcome, *fragments: str) -> None:
    """Exit code 2 and exactly one line on standard error."""
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("catnf: ")
    assert outcome.err.count("\n") == 1, outcome.err
    for fragment in fragments:
        assert fragment in outcome.err


def test_train_then_go_on(catnf: Catnf, tmp_path: Path) -> None:
    first = catnf("train", MIXTURE, *TINY, "--device=cpu", "--quiet", "--json", "--seed=2")
    assert first.code == 0
    told = json.loads(first.out)
    assert (told["step"], told["finished"]) == (20, True)
    assert Path(told["folder"]) == Path("runs") / MIXTURE / "seed-2"
    more = catnf("train", MIXTURE, *TINY, "--set=training.steps=25", "--device=cpu", "--seed=2", "--quiet")
    assert (more.code, more.out) == (0, "")
    assert "25 of 25 steps" in more.err


def test_a_stopped_run_says_how_to_go_on(catnf: Catnf) -> None:
    steps = "--set=training.steps=150"
    stopped = catnf("train", MIXTURE, *TINY, steps, "--max-time=0", "--device=cpu", "--quiet", "-o", "run")
    assert stopped.code == 0
    # It stops where it logs: every hundred steps, or every two seconds where these come first.
    assert 0 < int(stopped.err.split(" of 150 steps")[0].split()[-1]) <= 100
    assert "the same command goes on from here" in stopped.err


def test_evaluate_prints_one_json_object(run: Path) -> None:
    done = python("evaluate", str(run), *FAST, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert told["experiment"] == MIXTURE
    assert {"bits_per_variable", "reconstruction", "validity", "optimum"} <= set(told["metrics"])
    assert told["n"]["bits_per_variable"] == 20
    assert (told["seeds"], told["training"]["steps"]) == ([0], 20)
    assert told["command"].startswith(f"catnf evaluate {run} --samples=2")
    assert told["hardware"]
    assert told["revision"]


def test_evaluate_writes_results_and_prints_a_table(catnf: Catnf, run: Path, tmp_path: Path) -> None:
    done = catnf("evaluate", run, *FAST, "--results=results")
    assert done.code == 0
    assert "bits_per_variable" in done.out
    written = json.loads((tmp_path / "results" / f"{MIXTURE}.json").read_text())
    assert written["seeds"] == [0]
    assert written["metrics"]["validity"] == written["runs"][0]["metrics"]["validity"]


def test_evaluate_does_not_replace_another_training(catnf: Catnf, run: Path, tmp_path: Path) -> None:
    assert catnf("evaluate", run, *FAST, "--results=results").code == 0
    assert catnf("evaluate", run, *FAST, "--results=results").code == 0, "the same weights measured again"
    before = tree(tmp_path / "results")
    shorter = "--set=training.steps=20", "--set=training.batch=8"
    trained = catnf("train", MIXTURE, *TINY, *shorter, "--device=cpu", "--quiet", "-o", "other")
    assert trained.code == 0
    outcome = catnf("evaluate", "other", *FAST, "--results=results")
    assert_refused(outcome, "mixture.json holds figures of other weights of seed 0", "another folder")
    assert tree(tmp_path / "results") == before


def test_sample_to_the_screen_to_a_file_and_as_json(catnf: Catnf, run: Path, tmp_path: Path) -> None:
    screen = catnf("sample", run, "-n", 5, "--seed=1", "--device=cpu")
    assert screen.code == 0
    assert screen.out.count("\n") == 6
    assert "validity" in screen.err
    file = catnf("sample", run, "-n", 5, "--seed=1", "-o", "deep/folder/samples.csv")
    assert (file.code, file.out) == (0, "")
    text = (tmp_path / "deep" / "folder" / "samples.csv").read_text()
    assert text == screen.out, "the same seed gives the same samples"
    rows = list(csv.reader(text.splitlines()))
    assert rows[0] == ["x0", "x1", "x2", "x3"]
    told = json.loads(catnf("sample", run, "-n", 5, "--seed=1", "--json").out)
    assert told["samples"] == [[int(value) for value in row] for row in rows[1:]]
    assert set(told) == {"n", "metrics", "samples"}
    both = json.loads(catnf("sample", run, "-n", 5, "--seed=1", "--json", "-o", "s.csv").out)
    assert both["output"] == "s.csv"


def test_list(catnf: Catnf) -> None:
    told = json.loads(catnf("list", "--json").out)
    assert told["experiments"] == experiment_names()
    assert set(told["bundled"]) <= set(told["experiments"])
    shown = catnf("list").out.splitlines()
    assert [line.split()[0] for line in shown] == experiment_names()


def test_bench(catnf: Catnf, tmp_path: Path) -> None:
    done = catnf(
        "bench", MIXTURE, *TINY, "--batch=8", "--repeats=2", "--device=cpu", "--json", "-o", "b.json"
    )
    told = json.loads(done.out)
    assert (told["n"], set(told["metrics"])) == (8, {"train_step_ms", "log_prob_ms", "sample_ms"})
    assert json.loads((tmp_path / "b.json").read_text()) == told


def test_version_and_help(catnf: Catnf) -> None:
    assert catnf("--version").out.strip() == __version__
    assert catnf("train", "--help").code == 0
    assert "evaluate" in catnf().out


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (["train", "sets/shufling/mixture"], ["Did you mean 'sets/shuffling/mixture'?"]),
        (["train", "nothing.yaml"], ["Cannot read nothing.yaml"]),
        (["train", MIXTURE, "--set=model.mixtrues=3"], ["'mixtrues'", "Did you mean 'mixtures'?"]),
        (["train", MIXTURE, "--set=model.mixtures=many"], ["model.mixtures", "an integer is expected"]),
        (["train", MIXTURE, "--set=model.mixtures"], ["model.mixtures=16"]),
        (["train", MIXTURE, "--set=training.batch=0"], ["training.batch is 0"]),
        (["train", MIXTURE, "--set=model.kind=mixtur"], ["model.kind"]),
        (["train", "sets/summation/mixture", "--set=task.size=4"], ["cannot sum to 42"]),
        (["train", MIXTURE, "--device=tpu"], ["--device", "tpu"]),
        (["train", MIXTURE, "--devices=0"], ["devices is 0"]),
        (["train", MIXTURE, "--seed=-1"], ["seed is -1"]),
        (["train", MIXTURE, "--seed=99999999999999999999999"], ["seed is 99999999999999999999999"]),
        (["train", MIXTURE, "--sed=1"], ["--sed", "--seed"]),
        (["train"], ["NAME is missing"]),
        (["trian", MIXTURE], ["trian", "train"]),
        (["evaluate", "sets/shuffling/missing"], ["no bundled model or file 'sets/shuffling/missing'"]),
        (["evaluate", "missing.safetensors"], ["There is no file missing.safetensors"]),
        (["evaluate", "."], ["holds neither model.safetensors nor checkpoint.safetensors"]),
        (["sample", "missing.safetensors"], ["There is no file missing.safetensors"]),
        (["bench", MIXTURE, *TINY, "--repeats=0"], ["repeats is 0"]),
        (["bench", MIXTURE, *TINY, "--batch=0"], ["batch is 0"]),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else None,
)
def test_bad_input_is_one_sentence(
    catnf: Catnf, tmp_path: Path, arguments: list[str], fragments: list[str]
) -> None:
    assert_refused(catnf(*arguments), *fragments)
    assert not list(tmp_path.iterdir()), "nothing is left behind"


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
@pytest.mark.parametrize("command", [["train", MIXTURE], ["bench", MIXTURE], ["evaluate", MIXTURE]])
def test_a_missing_gpu_is_one_sentence(catnf: Catnf, tmp_path: Path, command: list[str]) -> None:
    assert_refused(catnf(*command, "--device=cuda"), "torch sees no GPU; use --device cpu")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        (["sample", "-n", "0"], "-n is 0"),
        (["sample", "--temperature=0"], "temperature is 0.0"),
        (["sample", "--temperature=nan"], "temperature is nan"),
        (["sample", "--seed=-1"], "seed is -1"),
        (["evaluate", "--examples=0"], "examples is 0"),
        (["evaluate", "--samples=0"], "samples is 0"),
        (["evaluate", "--temperature=0"], "temperature is 0.0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_numbers_without_a_meaning(
    catnf: Catnf, run: Path, tmp_path: Path, options: list[str], fragment: str
) -> None:
    command, *rest = options
    assert_refused(catnf(command, run, *rest), fragment)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["evaluate", "sample"])
@pytest.mark.parametrize("damage", ["text", "foreign", "truncated"])
def test_unusable_files(catnf: Catnf, run: Path, tmp_path: Path, command: str, damage: str) -> None:
    path = tmp_path / "bad.safetensors"
    if damage == "foreign":
        save_file({"weight": torch.zeros(3)}, path)
    else:
        whole = (run / "model.safetensors").read_bytes()
        path.write_bytes(b"hello" if damage == "text" else whole[:-10])
    assert_refused(catnf(command, path), "bad.safetensors")


def test_resuming_something_else_names_the_field(catnf: Catnf, run: Path) -> None:
    before = tree(run)
    outcome = catnf("train", MIXTURE, *TINY, "--set=model.mixtures=3", "--device=cpu", "-o", run)
    assert_refused(outcome, "model.mixtures=2, not 3", "--restart")
    assert_refused(catnf("train", MIXTURE, *TINY, "--seed=7", "--device=cpu", "-o", run), "seed 0, not 7")
    assert tree(run) == before


def test_folders_that_cannot_be_written(catnf: Catnf, run: Path, tmp_path: Path) -> None:
    """A part of the path is a file, which stops even an administrator."""
    (tmp_path / "file").write_text("mine")
    below = tmp_path / "file" / "below"
    assert_refused(catnf("train", MIXTURE, *TINY, "--device=cpu", "-o", below), str(below), "--output")
    assert_refused(catnf("sample", run, "-o", below / "s.csv"), "s.csv")
    assert_refused(catnf("evaluate", run, *FAST, "--results", below), str(below))
    bench = ["bench", MIXTURE, *TINY, "--batch=4", "--repeats=1", "--device=cpu"]
    assert_refused(catnf(*bench, "-o", below / "b.json"), "b.json")
    assert tree(tmp_path) == {tmp_path / "file": b"mine"}


def test_a_loss_that_is_not_finite(catnf: Catnf, tmp_path: Path) -> None:
    rate = ["--set=training.learning_rate=1e30", "--set=training.warmup=0"]
    outcome = catnf("train", MIXTURE, *TINY, *rate, "--device=cpu", "--quiet", "-o", "run")
    assert_refused(outcome, "at step", "training.learning_rate")
    assert not list(tmp_path.rglob("*.safetensors"))


@pytest.fixture
def full_disk() -> Iterator[None]:
    """No file can grow beyond 16 kB."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16_384, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_leaves_nothing_half_written(catnf: Catnf, run: Path, tmp_path: Path) -> None:
    assert_refused(catnf("sample", run, "-n", 5000, "-o", "samples.csv"), "Cannot write samples.csv")
    assert_refused(
        catnf("train", MIXTURE, *TINY, "--device=cpu", "--quiet", "-o", "run"), "Cannot write", "checkpoint"
    )
    names = {path.name for path in tmp_path.rglob("*") if path.is_file() and "tensorboard" not in path.parts}
    assert names == {"losses.csv"}
