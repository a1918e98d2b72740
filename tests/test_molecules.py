"""Molecules of a user, from Python and from the command line: sample and train."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("rdkit", reason="needs RDKit")

import catnf.molecules
from catnf import sample_molecules
from catnf.fitted import FittedModel, load
from catnf.molecules import SampledChunk, SamplingOptions, stream_molecules
from catnf.tasks.molecules import Molecules
from catnf.tasks.molecules.chemistry import canonical_smiles

SMILES = [
    f"{'C' * n}{middle}{end}" for n, middle, end in product((1, 2, 3), ("", "C(=O)", "O"), ("N", "C", "O"))
]
SMILES += ["C1CC1", "C1CCC1", "C1CCOC1", "C1CNC1", "C1CCCC1", "C1CCNC1"]
NETWORK = {"node_hidden": 16, "edge_hidden": 8, "heads": 2}
LAYERS = ("node_layers", "edge_layers", "pair_layers", "node_blocks", "edge_blocks", "pair_blocks")
TINY = [f"--set=model.{name}={value}" for name, value in (NETWORK | dict.fromkeys(LAYERS, 1)).items()]
TINY += ["--set=training.batch=32", "--set=training.steps=80", "--set=training.warmup=5", "--device=cpu"]
HEADER = "smiles,valid,bits_per_node"


class Outcome(NamedTuple):
    code: object
    out: str
    err: str


Catnf = Callable[..., Outcome]


def python(*arguments: object, script: str = "") -> Outcome:
    """Runs the command line in a process of its own."""
    start = ["-c", script] if script else ["-m", "catnf"]
    done = subprocess.run(
        [sys.executable, *start, *map(str, arguments)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def assert_refused(done: Outcome, *fragments: str) -> None:
    assert done.code == 2
    lines = [line for line in done.err.splitlines() if line.startswith("catnf: ")]
    assert len(lines) == 1, done.err
    assert "Traceback" not in done.err
    for fragment in fragments:
        assert fragment in lines[0]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a few small molecules, trained for seconds from a file of them."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "mine.smi").write_text("\n".join([*SMILES, "CC.O", "*C", "C[Na]"]) + "\n")
    done = python("train", "molecules", "--smiles", folder / "mine.smi", "-o", folder / "run", *TINY)
    assert done.code == 0, done.err
    assert "not used: 1 (several molecules)" in done.err
    assert "80 of 80 steps" in done.err
    return folder / "run"


@pytest.fixture(scope="module")
def fitted(run: Path) -> FittedModel:
    return load(run)


def test_train_makes_the_task_of_the_file(fitted: FittedModel, run: Path) -> None:
    assert isinstance(fitted.task, Molecules)
    assert fitted.experiment.name == "molecules/mine-neutral"
    assert Path(fitted.task.source) == run.parent / "mine.smi-neutral.npz"
    assert (fitted.task.nodes, fitted.task.bonds) == (6, 5)
    assert fitted.task.groups[-1] == 6
    assert fitted.task.vocabulary.atoms[:3] == ("C", "N", "O")


def test_sample_to_a_file_and_a_picture(run_catnf: Catnf, run: Path, tmp_path: Path) -> None:
    first = run_catnf("sample", run, "-n", 30, "--seed=1", "-o", "deep/out.csv", "--grid=out.png")
    assert (first.code, first.out) == (0, ""), first.err
    text = (tmp_path / "deep" / "out.csv").read_text()
    header, *lines = text.splitlines()
    assert header == HEADER
    rows = [line.split(",") for line in lines]
    assert len(rows) == 30
    assert {"true", "false"} >= {valid for _, valid, _ in rows}
    assert all(canonical_smiles(smiles) == smiles for smiles, valid, _ in rows if valid == "true")
    assert all(0 < float(bits) < 100 for _, _, bits in rows)
    assert "30 molecules drawn" in first.err
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["deep", "out.csv", "out.png"]
    assert run_catnf("sample", run, "-n", 30, "--seed=1").out == text, "the same seed gives the same samples"
    told = json.loads(run_catnf("sample", run, "-n", 30, "--seed=1", "--json").out)
    assert [sample["smiles"] for sample in told["samples"]] == [smiles for smiles, _, _ in rows]
    assert (told["n"], told["drawn"]) == (30, 30)


def test_chunks_have_seeds_of_their_own(fitted: FittedModel) -> None:
    few, many = (
        [chunk.molecules for chunk in stream_molecules(fitted, SamplingOptions(count, seed=3))]
        for count in (300, 600)
    )
    assert [len(chunk) for chunk in many] == [256, 256, 88]
    assert [m.smiles for m in few[0]] == [m.smiles for m in many[0]]
    assert [m.smiles for m in many[0]] != [m.smiles for m in many[1]]


def test_largest_and_valid_only(fitted: FittedModel, run_catnf: Catnf, run: Path, tmp_path: Path) -> None:
    whole = sample_molecules(200, fitted, seed=2)
    pieces = sample_molecules(200, fitted, seed=2, largest=True)
    assert any("." in molecule.smiles for molecule in whole)
    assert not any("." in molecule.smiles for molecule in pieces)
    assert all(not molecule.valid for molecule in whole if "." in molecule.smiles)
    assert sum(molecule.valid for molecule in pieces) > sum(molecule.valid for molecule in whole) > 0
    done = run_catnf("sample", run, "-n", 20, "--valid-only", "--seed=2", "-o", "valid.csv")
    assert "the first 20 valid ones are given" in done.err
    rows = (tmp_path / "valid.csv").read_text().splitlines()[1:]
    assert len(rows) == 20
    assert all(",true," in row for row in rows)


@pytest.mark.parametrize("first", [0, 3])
def test_next_to_nothing_is_valid(
    run_catnf: Catnf, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    found = iter(["C"] * first)
    monkeypatch.setattr(catnf.molecules, "strict_smiles", lambda graph, vocabulary: next(found, None))
    monkeypatch.setattr(catnf.molecules, "_DRAWS_A_VALID", 50)
    done = run_catnf("sample", run, "-n", 10, "--valid-only", "--seed=2", "-o", "valid.csv")
    assert_refused(done, f"Only {first} of", "samples are valid, too few to find 10")
    left = [path.name for path in tmp_path.iterdir()]
    assert left == (["valid.partial.csv"] if first else [])
    if first:
        assert (tmp_path / "valid.partial.csv").read_text().count("\n") == 1 + first


def test_ctrl_c_keeps_what_is_complete(
    run_catnf: Catnf, fitted: FittedModel, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(fitted: FittedModel, options: SamplingOptions) -> Iterator[SampledChunk]:
        yield next(stream_molecules(fitted, SamplingOptions(5)))
        raise KeyboardInterrupt

    monkeypatch.setattr(catnf.molecules, "stream_molecules", stopped)
    done = run_catnf("sample", run, "-n", 10, "-o", "out.csv")
    assert done.code == 130
    assert "the 5 molecules that are complete are in out.partial.csv" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["out.partial.csv"]
    assert (tmp_path / "out.partial.csv").read_text().count("\n") == 6


def test_every_process_writes_a_shard(
    run_catnf: Catnf, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "3")
    texts = []
    for rank, count in ((0, 4), (1, 3), (2, 3)):
        monkeypatch.setenv("RANK", str(rank))
        options = ("-n", 10, "--seed=5", "--device=cpu", "-o", "out.csv", "--grid", "out.png")
        assert run_catnf("sample", run, *options).code == 0
        texts.append((tmp_path / f"out-0000{rank + 1}-of-00003.csv").read_text().splitlines()[1:])
        assert len(texts[-1]) == count
    assert len({text[0] for text in texts}) == 3, "each has a seed stream of its own"
    assert len(list(tmp_path.iterdir())) == 4, "three shards and one picture"
    assert_refused(run_catnf("sample", run, "-n", 10), "cannot share the screen")
    assert_refused(run_catnf("sample", run, "-n", 2, "-o", "out.csv"), "2 samples are fewer than the 3")


@pytest.fixture
def full_disk() -> Iterator[None]:
    """No file can grow beyond 4 kB."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_leaves_nothing(run_catnf: Catnf, run: Path, tmp_path: Path) -> None:
    assert_refused(run_catnf("sample", run, "-n", 250, "-o", "out.csv"), "Cannot write out.csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        (["--grid=out.pdf"], "out.pdf; give a name that ends in .png"),
        (["-n", "0"], "-n is 0; give at least 1"),
        (["--temperature=0"], "temperature is 0.0"),
        (["--seed=-1"], "seed is -1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_numbers_without_a_meaning(
    run_catnf: Catnf, run: Path, tmp_path: Path, options: list[str], fragment: str
) -> None:
    assert_refused(run_catnf("sample", run, *options, "-o", "out.csv"), fragment)
    assert not list(tmp_path.iterdir())


def test_models_that_do_not_fit(run_catnf: Catnf, tmp_path: Path) -> None:
    sets = "sets/shuffling/mixture"
    (tmp_path / "some.smi").write_text("CCO\n")
    assert_refused(run_catnf("sample", sets, "--largest"), "--largest is for molecules")
    assert_refused(run_catnf("sample", sets, "--grid=out.png"), "--grid draws molecules and colorings")
    assert_refused(run_catnf("train", "molecules"), "give molecules with --smiles mine.smi")
    assert_refused(run_catnf("train", sets, "--column=smiles"), "No file of molecules is named")
    assert_refused(run_catnf("train", sets, "--smiles=some.smi"), "--smiles is for molecules")
    (tmp_path / "salts.smi").write_text("CC.O\nCC.Cl\n")
    assert_refused(
        run_catnf("train", "molecules", "--smiles=salts.smi"), "No molecule of salts.smi can train"
    )


def test_without_rdkit(run: Path) -> None:
    script = "import sys; sys.modules['rdkit'] = None; from catnf.cli import main; main()"
    refused = python("sample", run, script=script)
    assert_refused(refused, "pip install 'catnf[chem]', or write plain graphs with --graphs graphs.npz.")
