"""`catnf data molecules`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("rdkit", reason="needs RDKit")

from catnf.cli import main
from catnf.cli.molecules import own_molecules
from catnf.tasks.molecules.archive import MoleculeData

SMILES = [f"{'C' * n}{end}" for n in range(1, 6) for end in ("O", "N", "C(=O)[O-]", "[N+](=O)[O-]")]


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


class Command:
    """The command line, in this process: a new one would spend seconds on importing torch."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, captured: pytest.CaptureFixture[str]) -> None:
        self.patch, self.captured = patch, captured
        patch.setenv("CATNF_DATA", "")
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))

    def __call__(self, *arguments: object) -> Outcome:
        self.patch.setattr(sys, "argv", ["catnf", "data", "molecules", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return Outcome(int(ended.value.code or 0), *self.captured.readouterr())


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path, monkeypatch, capsys)


def assert_refused(done: Outcome, words: str) -> None:
    assert done.code == 2
    assert words in done.err
    assert len(done.err.splitlines()) == 1, done.err
    assert done.out == ""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "mine.v2.csv"
    path.write_text("id,SMILES\n" + "".join(f"{row},{text}\n" for row, text in enumerate(SMILES)) + "x,C1\n")
    return path


def test_a_table(command: Command, table: Path, tmp_path: Path) -> None:
    done = command(table, "--workers=1")
    assert done.code == 0, done.err
    assert done.out.splitlines() == [str(tmp_path / "mine.v2.csv-neutral.npz")]
    assert "needs a charge" in done.err
    assert "(unparsable)" in done.err
    assert str(tmp_path / "mine.v2.csv-neutral.refused.csv") in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "mine.v2.csv",
        "mine.v2.csv-neutral.npz",
        "mine.v2.csv-neutral.refused.csv",
    ]


def test_training_keeps_the_split_that_was_asked_for(command: Command, table: Path) -> None:
    assert command(table, "--workers=1", "--shares", 6, 3, 1).code == 0
    path = table.with_name("mine.v2.csv-neutral.npz")
    before = path.read_bytes()
    own_molecules("molecules", table, "neutral", None, quiet=True)
    assert path.read_bytes() == before


def test_json(command: Command, table: Path, tmp_path: Path) -> None:
    path = tmp_path / "out" / "molecules.npz"
    options = ("--vocabulary=charged", "--column=SMILES", "--shares", 1, 1, 0, "--workers=1", "-o", path)
    told = json.loads(command(table, *options, "--json").out)
    assert told["path"] == str(path)
    assert told["bytes"] == path.stat().st_size
    assert Path(told["refused_path"]).exists()
    data = MoleculeData.load(path)
    assert told["fingerprint"] == data.fingerprint()
    assert told["counts"] == {name: len(split) for name, split in data.splits.items()}
    assert sum(told["counts"].values()) == len(SMILES)
    assert told["atoms"] == list(data.vocabulary.atoms)


def test_what_cannot_be_read_is_one_sentence(command: Command, table: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.smi").write_text("")
    (tmp_path / "binary.smi").write_bytes(b"\xff\xfe\x00")
    for arguments, words in (
        ((table, "--column=other"), "has no column 'other' but id, SMILES"),
        ((tmp_path / "empty.smi",), "has no molecules"),
        ((tmp_path / "binary.smi",), "is not UTF-8 text"),
        ((tmp_path / "missing.smi",), "missing.smi' is neither a file nor one of zinc250k, moses"),
        (("zinc",), "did you mean zinc250k?"),
        ((table, "-o", "molecules.txt"), "give a name that ends in .npz"),
        ((table, "--vocabulary=all"), "--vocabulary is 'all'; choose from neutral, charged"),
        ((table, "--shares", 0, 0, 0), "shares are (0.0, 0.0, 0.0)"),
        ((table, "--workers=0"), "workers is 0"),
        (("moses", "--column=smiles"), "its own column and splits"),
    ):
        assert_refused(command(*arguments), words)


def test_offline(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # nothing listens there
    for name, address in (
        ("zinc250k", "250k_rndm_zinc_drugs_clean_3.csv"),
        ("moses", "moses/master/data/train.csv"),
    ):
        done = command(name)
        assert_refused(done, address)
        assert "yourself and put it into" in done.err
        assert str(tmp_path / "cache" / "catnf" / name) in done.err


def test_without_rdkit(table: Path) -> None:
    script = "import sys; sys.modules['rdkit'] = None; from catnf.cli import main; main()"
    command = [sys.executable, "-c", script, "data", "molecules", str(table)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert_refused(Outcome(done.returncode, done.stdout, done.stderr), "pip install 'catnf[chem]'")
