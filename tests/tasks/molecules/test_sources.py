"""Where SMILES come from, and how they are split."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catnf.errors import InputError, StorageError
from catnf.tasks.download import PublicFile
from catnf.tasks.files import find_data
from catnf.tasks.molecules import sources
from catnf.tasks.molecules.files import read_smiles_file
from catnf.tasks.molecules.sources import (
    ZINC250K,
    KnownLines,
    dataset_path,
    from_file,
    lines_digest,
    moses,
    open_source,
    zinc250k,
)

SMILES = ["CCO", "c1ccccc1", "C[N+](=O)[O-]"]


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("a.smi", "CCO\nc1ccccc1\nC[N+](=O)[O-]\n", [1, 2, 3]),
        ("a.SMI", "CCO ethanol\r\nc1ccccc1\tbenzene\r\nC[N+](=O)[O-]", [1, 2, 3]),
        ("a.txt", "\ufeffSMILES name\nCCO\n c1ccccc1\nC[N+](=O)[O-]\n", [2, 3, 4]),
        ("a.b.txt", "smiles\nCCO\nc1ccccc1\nC[N+](=O)[O-]\n", [2, 3, 4]),
        ("a.csv", "id,SMILES,y\n1,CCO,2\n2,c1ccccc1,3\n\n3,C[N+](=O)[O-],4\n", [2, 3, 5]),
        ("a.csv", 'smiles,logP\n"CCO\n",2\n"c1ccccc1\n",3\n"C[N+](=O)[O-]\n",4\n', [2, 4, 6]),
        ("a.tsv", "Smiles\tx\nCCO\t1\nc1ccccc1\t1\nC[N+](=O)[O-]\t1\n", [2, 3, 4]),
    ],
)
@pytest.mark.parametrize("packing", ["", ".gz", ".xz"])
def test_formats(tmp_path: Path, name: str, text: str, lines: list[int], packing: str) -> None:
    path = tmp_path / f"{name}{packing}"
    pack = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[packing]
    path.write_bytes(pack(text.encode()))
    rows = read_smiles_file(path)
    assert rows.smiles == SMILES
    assert rows.lines.tolist() == lines
    assert rows.file == path.name


def test_gaps_are_kept(tmp_path: Path) -> None:
    (tmp_path / "a.smi").write_text("C\n\nO\n")
    assert read_smiles_file(tmp_path / "a.smi").smiles == ["C", "", "O"]
    (tmp_path / "a.csv").write_text("name,smiles\na,C\nb\nc,O\n")
    assert read_smiles_file(tmp_path / "a.csv").smiles == ["C", "", "O"]


def test_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("smiles,product\nC,O\nC,N\n")
    assert read_smiles_file(path, "product").smiles == ["O", "N"]
    with pytest.raises(InputError, match=r"no column 'other' but smiles, product; name one .* --column"):
        read_smiles_file(path, "other")
    path.write_text("id,product\nC,O\n")
    with pytest.raises(InputError, match="no column smiles but id, product"):
        read_smiles_file(path)
    (tmp_path / "a.smi").write_text("C\n")
    with pytest.raises(InputError, match="has no columns, so none is called 'product'"):
        read_smiles_file(tmp_path / "a.smi", "product")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.smi", b"", "has no molecules"),
        ("a.smi", b"\n\n", "has no molecules"),
        ("a.csv", b"", "has no molecules"),
        ("a.csv", b"smiles\n", "has no molecules"),
        ("a.smi", b"C\n\xff\xfe\n", "is not UTF-8 text"),
        ("a.csv", b"smiles\n\xe9\n", "is not UTF-8 text"),
        ("a.csv", b"smiles\n" + b"C" * 200_000, "is not a table"),
        ("a.sdf", b"C", "is of an unknown kind"),
        ("a", b"C", "is of an unknown kind"),
        ("a.gz", b"C", "is of an unknown kind"),
        ("a.smi.gz", b"C", "is damaged or not a .gz file"),
        pytest.param(
            "a.smi.gz",
            gzip.compress(b"C\n" * 1000, mtime=0)[:-9],
            "is damaged or not a .gz file",
            id="a cut .gz file",
        ),
        ("a.smi.xz", b"C", "is damaged or not a .xz file"),
        pytest.param(
            "a.smi.xz",
            lzma.compress(b"C\n" * 1000)[:-9],
            "is damaged or not a .xz file",
            id="a cut .xz file",
        ),
    ],
)
def test_bad_files(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises((InputError, StorageError), match=message):
        read_smiles_file(tmp_path / name)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for name in ("a.smi", "a.csv", "a.smi.gz", "a.smi.xz"):
        with pytest.raises(StorageError, match="cannot be read: No such file"):
            read_smiles_file(tmp_path / name)
    (tmp_path / "b.smi").mkdir()
    with pytest.raises(StorageError, match="cannot be read: Is a directory"):
        read_smiles_file(tmp_path / "b.smi")


@given(st.lists(st.sampled_from([f"{'C' * n}O" for n in range(30)]), min_size=1, max_size=60), st.data())
def test_users_splits(
    tmp_path_factory: pytest.TempPathFactory, smiles: list[str], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("split") / "a.smi"
    path.write_text("\n".join(smiles))
    source = from_file(path)
    sets = {name: set(rows.smiles) for name, rows in source.splits.items()}
    assert sorted(text for rows in source.splits.values() for text in rows.smiles) == sorted(smiles)
    assert len(source) == len(smiles)
    assert sum(map(len, sets.values())) == len(set(smiles)), "equal molecules stay together"
    assert abs(len(sets["train"]) - 0.8 * len(set(smiles))) <= 0.5
    assert abs(len(sets["test"]) - 0.1 * len(set(smiles))) <= 0.5
    for rows in source.splits.values():
        assert [smiles[line - 1] for line in rows.lines] == rows.smiles
    path.write_text("\n".join(data.draw(st.permutations(smiles))))
    again = from_file(path)
    assert {name: set(rows.smiles) for name, rows in again.splits.items()} == sets


def test_shares(tmp_path: Path) -> None:
    path = tmp_path / "a.smi"
    path.write_text("\n".join("C" * n for n in range(1, 101)))
    counts = [len(rows.smiles) for rows in from_file(path, shares=(2, 1, 1)).splits.values()]
    assert counts == [50, 25, 25]
    assert "0.5, 0.25, 0.25" in from_file(path, shares=(2, 1, 1)).rule
    assert from_file(path).digest() != from_file(path, shares=(2, 1, 1)).digest()
    assert from_file(path).digest() == from_file(path).digest()
    for shares in ((0, 0, 0), (-1, 1, 1), (float("nan"), 1, 1), (float("inf"), 1, 1)):
        with pytest.raises(InputError, match="shares are"):
            from_file(path, shares=shares)  # type: ignore[arg-type]
    for name in ("zinc250k", "moses"):
        with pytest.raises(InputError, match="its own column and splits"):
            open_source(name, column="smiles")


def test_known_lines_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATNF_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    public = PublicFile("set/lines.csv", "http://no-such-host.invalid/lines.csv", "0" * 64)
    known = KnownLines("set/lines.smi.xz", public, lines_digest(SMILES))
    with pytest.raises(
        StorageError, match=r"http://no-such-host.invalid/lines.csv .* into .*set as lines.csv"
    ):
        known.read(lambda name, done, total: None)
    (tmp_path / "set" / "lines.csv").write_text("smiles,x\n" + "".join(f'"{text}\n",1\n' for text in SMILES))
    assert known.read(lambda name, done, total: None).smiles == SMILES
    (tmp_path / "set" / "lines.smi.xz").write_bytes(lzma.compress(b"C\n"))
    with pytest.raises(StorageError, match=r"lines.smi.xz holds other molecules than the published"):
        known.read(lambda name, done, total: None)


def test_the_held_out_rows_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATNF_DATA", str(tmp_path))
    (tmp_path / "zinc250k").mkdir()
    (tmp_path / "zinc250k" / "zinc250k.smi.xz").write_bytes(lzma.compress(b"C\nO\nN\n"))
    monkeypatch.setattr(
        sources, "ZINC250K", KnownLines(ZINC250K.compact, ZINC250K.public, lines_digest(list("CON")))
    )
    (tmp_path / "zinc250k" / "valid_idx_zinc.json").write_text("[1]")
    with pytest.raises(StorageError, match="not the published list of held-out rows"):
        zinc250k()
    held_out = PublicFile("zinc250k/valid_idx_zinc.json", "", hashlib.sha256(b"[1]").hexdigest())
    monkeypatch.setattr(sources, "ZINC250K_HELD_OUT", held_out)
    assert {name: rows.smiles for name, rows in zinc250k().splits.items()} == {
        "train": ["C", "N"],
        "validation": ["O"],
        "test": [],
    }


def test_data_sets_say_how_to_make_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATNF_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(StorageError, match="catnf data molecules moses --vocabulary neutral"):
        dataset_path("moses", "neutral")
    (tmp_path / "molecules").mkdir()
    (tmp_path / "molecules" / "moses-neutral.npz").write_text("")
    assert dataset_path("moses", "neutral") == tmp_path / "molecules" / "moses-neutral.npz"
    assert dataset_path("mine.npz", "neutral") == Path("mine.npz")


@pytest.mark.skipif(find_data("zinc250k/zinc250k.smi.xz") is None, reason="needs Zinc250k under CATNF_DATA")
def test_zinc250k() -> None:
    source = zinc250k()
    assert [len(rows.smiles) for rows in source.splits.values()] == [224_568, 8_192, 16_695]
    lines = np.concatenate([rows.lines for rows in source.splits.values()])
    assert sorted(lines.tolist()) == list(range(1, 249_456))
    path = find_data("zinc250k/valid_idx_zinc.json")
    assert path is not None
    assert source.splits["validation"].lines.tolist() == [
        row + 1 for row in json.loads(path.read_text())[:8192]
    ]


@pytest.mark.skipif(find_data("moses/moses_train.smi.xz") is None, reason="needs MOSES under CATNF_DATA")
def test_moses() -> None:
    source = moses()
    counts = {name: len(rows.smiles) for name, rows in source.splits.items()}
    assert counts == {"train": 1_574_663, "validation": 10_000, "test": 176_074, "test_scaffolds": 176_225}
    lengths = {name: np.mean([len(text) for text in rows.smiles]) for name, rows in source.splits.items()}
    assert lengths["validation"] == pytest.approx(lengths["train"], abs=0.2), "a fair sample"
