"""From SMILES to archives."""

from __future__ import annotations

import csv
import json
import lzma
import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rdkit", reason="needs RDKit")

from rdkit import Chem

from catnf.errors import InputError
from catnf.tasks.files import find_data
from catnf.tasks.molecules.archive import MoleculeData
from catnf.tasks.molecules.chemistry import strict_smiles
from catnf.tasks.molecules.files import Rows
from catnf.tasks.molecules.preparation import prepare, read_piece, refused_path
from catnf.tasks.molecules.smiles import Refusal
from catnf.tasks.molecules.sources import Source, from_file
from catnf.tasks.molecules.vocabulary import NEUTRAL

TRAIN = ["CCO", "C[N+](=O)[O-]", "CC(=O)[O-]", "c1ccc[nH]1", "", "CC.C", "CCBr", "C[NH3+]", "CC(=O)[O-]"]
VALIDATION = ["CC=O", "C[N+](=O)[O-]", "C1CC"]
TEST = ["N#CC", "C[Se]C", "C[N+](C)(C)C", "O=[PH2]C"]


def rows(smiles: list[str], first: int = 1) -> Rows:
    return Rows("mine.smi", np.arange(first, first + len(smiles)), smiles)


def source(train: list[str] = TRAIN) -> Source:
    splits = {"train": rows(train), "validation": rows(VALIDATION, 101), "test": rows(TEST, 201)}
    return Source("mine", "by hand", splits)


def written(data: MoleculeData) -> dict[str, list[str | None]]:
    return {
        name: [strict_smiles(graph, data.vocabulary) for graph in split]
        for name, split in data.splits.items()
    }


def refused(path: Path) -> list[dict[str, str]]:
    with refused_path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def test_neutral(tmp_path: Path) -> None:
    path = tmp_path / "new" / "mine.npz"
    summary = prepare(source(), "neutral", path, workers=1)
    data = MoleculeData.load(path)
    assert data.vocabulary == NEUTRAL
    assert written(data) == {
        "train": ["CCO", "CC(=O)O", "c1cc[nH]c1", "CCBr", "CN", "CC(=O)O"],
        "validation": ["CC=O", None],
        "test": ["CC#N", None, "CP=O"],
    }
    for name, split in data.splits.items():
        assert split.valid.tolist() == [text is not None for text in written(data)[name]]
    assert summary.counts == {"train": 6, "validation": 2, "test": 3}
    assert summary.valid == {"train": 6, "validation": 1, "test": 2}
    assert summary.altered == {"train": 0, "validation": 0, "test": 1}
    assert summary.refused == {
        "train": {"empty": 1, "several molecules": 1, "needs a charge": 1},
        "validation": {"unparsable": 1},
        "test": {"unknown atom": 1},
    }
    assert list(summary.largest) == [5, 5]
    assert summary.fingerprint == data.fingerprint()
    assert [tuple(line.values()) for line in refused(path)] == [
        ("train", "mine.smi", "2", "needs a charge", "C[N+](=O)[O-]"),
        ("train", "mine.smi", "5", "empty", ""),
        ("train", "mine.smi", "6", "several molecules", "CC.C"),
        ("validation", "mine.smi", "103", "unparsable", "C1CC"),
        ("test", "mine.smi", "202", "unknown atom", "C[Se]C"),
    ]


def test_charged(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    summary = prepare(source(), "charged", path, workers=1)
    data = MoleculeData.load(path)
    labels = data.vocabulary.atoms
    assert labels[0] == "C"
    assert set(labels) == {"C", "O", "O-", "Br", "N", "N+"}, "what train has, with or without charges"
    counts = np.bincount(data.splits["train"].atoms, minlength=len(labels))
    assert counts.tolist() == sorted(counts.tolist(), reverse=True)
    assert written(data)["train"] == [
        *("CCO", "C[N+](=O)[O-]", "CC(=O)[O-]", "c1cc[nH]c1", "CCBr", "C[NH3+]", "CC(=O)[O-]")
    ]
    assert all(split.valid.all() for split in data.splits.values())
    assert summary.refused["test"] == {"unknown atom": 2}
    assert [line["smiles"] for line in refused(path)[-2:]] == ["C[Se]C", "O=[PH2]C"]


def test_every_line_is_somewhere(tmp_path: Path) -> None:
    for kind in ("neutral", "charged"):
        path = tmp_path / f"{kind}.npz"
        seen: list[int] = []
        summary = prepare(source(), kind, path, workers=1, progress=seen.append, at_once=2)  # type: ignore[arg-type]
        lines = sum(summary.counts.values()) + sum(sum(why.values()) for why in summary.refused.values())
        assert lines == len(TRAIN + VALIDATION + TEST) == sum(seen)
        assert len(refused(path)) == sum(sum(why.values()) for why in summary.refused.values())


def test_workers_do_not_matter(tmp_path: Path) -> None:
    for workers, at_once in ((1, 1000), (2, 3), (1, 4)):
        prepare(source(), "charged", tmp_path / f"{workers}-{at_once}.npz", workers, at_once=at_once)
    for suffix in (".npz", ".refused.csv"):
        one, *others = (path.read_bytes() for path in tmp_path.glob(f"*{suffix}"))
        assert len(others) == 2
        assert all(other == one for other in others)


def test_finished_files_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    summary = prepare(source(), "neutral", path, workers=1)
    os.utime(path, (0, 0))  # long ago: clocks of file systems are too coarse to tell two writes apart
    stamp = path.stat().st_mtime_ns
    again = prepare(source(), "neutral", path, workers=1)
    assert path.stat().st_mtime_ns == stamp
    assert json.dumps(vars(again)) == json.dumps(vars(summary))
    prepare(source(TRAIN[:4]), "neutral", path, workers=1)
    assert path.stat().st_mtime_ns != stamp, "other lines"
    assert prepare(source(TRAIN[:4]), "charged", path, workers=1).vocabulary == "charged"
    path.write_bytes(b"damaged")
    assert prepare(source(), "neutral", path, workers=1) == summary


def test_nothing_to_train_with(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    with pytest.raises(InputError, match=r"No molecule of mine can train; .*mine.refused.csv says why"):
        prepare(source(["", "CC.C"]), "neutral", path, workers=1)
    assert not path.exists()
    assert len(refused(path)) == 4
    with pytest.raises(InputError, match="have 0 kinds of atoms"):
        prepare(source(["", "CC.C"]), "charged", path, workers=1)
    with pytest.raises(InputError, match="workers is 0"):
        prepare(source(), "neutral", path, workers=0)


def test_all_but_the_neutral_reasons_come_from_reading() -> None:
    lines = ["", "C1CC", "C(C)(C)(C)(C)C", "c1cccc1", "CC.C", "*C", "C" * 256, "C$C", "C[CH2]"]
    found = {reason for _, reason in read_piece(lines, charged=True).refused}
    assert found == set(Refusal) - {Refusal.ATOM, Refusal.CHARGE}


def zinc_rows() -> tuple[list[str], set[int]]:
    lines, listed = (
        find_data("zinc250k/zinc250k.smi.xz"),
        find_data("zinc250k/chargefree_invalid_idx.json.xz"),
    )
    if lines is None or listed is None:
        pytest.skip("needs Zinc250k and its list of molecules that need a charge under CATNF_DATA")
    return lzma.open(lines, "rt").read().split(), set(json.loads(lzma.open(listed).read()))


def test_the_neutral_filter_on_zinc250k() -> None:
    smiles, listed = zinc_rows()
    assert len(listed) == 11_776
    charged = [row for row, text in enumerate(smiles) if "+" in text or "-]" in text]
    assert listed <= set(charged), "what has no charges needs none"
    chosen = np.random.default_rng(0).choice(charged, 2500, replace=False).tolist()
    piece = read_piece([smiles[row] for row in chosen], charged=False)
    assert piece.refused == []
    assert {row for row, valid in zip(chosen, piece.archive.valid, strict=True) if not valid} == (
        listed & set(chosen)
    )


def test_charged_graphs_of_zinc250k_lose_nothing(tmp_path: Path) -> None:
    smiles, _ = zinc_rows()
    some = [smiles[row] for row in np.random.default_rng(1).choice(len(smiles), 1000, replace=False)]
    path = tmp_path / "zinc.smi"
    path.write_text("\n".join(some))
    source = from_file(path, shares=(1, 0, 0))
    prepare(source, "charged", tmp_path / "zinc.npz", workers=1)
    data = MoleculeData.load(tmp_path / "zinc.npz")
    flat = [Chem.MolToSmiles(Chem.MolFromSmiles(text), isomericSmiles=False) for text in some]
    # Without its stereo marks, a molecule may be written otherwise; a second reading settles that.
    assert written(data)["train"] == [Chem.CanonSmiles(text) for text in flat]
