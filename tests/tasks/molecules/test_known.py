"""Novelty: training molecules are read once and found again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rdkit", reason="needs RDKit")

from catnf.tasks.molecules import MoleculeTaskConfig, Vocabulary
from catnf.tasks.molecules import known as module
from catnf.tasks.molecules.archive import MoleculeArchive, MoleculeData
from catnf.tasks.molecules.known import known_hashes
from catnf.tasks.molecules.metrics import hash_smiles
from catnf.tasks.molecules.smiles import Refusal, encode
from catnf.tasks.molecules.vocabulary import MolecularGraph

ATOMS = Vocabulary(("C", "N", "O"))


def graphs(smiles: list[str]) -> list[MolecularGraph]:
    found = [encode(text, ATOMS) for text in smiles]
    return [graph for graph in found if not isinstance(graph, Refusal)]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "data" / "some.npz"
    train = MoleculeArchive.pack(graphs(["OCC", "C1CC1", "CN", "CN"]))
    test = MoleculeArchive.pack(graphs(["CCO", "CCN"]))
    MoleculeData(ATOMS, {"train": train, "validation": test, "test": test}, {}).save(file)
    return file


def archive(path: Path) -> MoleculeArchive:
    return MoleculeData.load(path, ["train"]).splits["train"]


def refuse(*arguments: object) -> None:
    raise AssertionError("the molecules are read again")


def test_novelty_is_measured_where_there_are_training_molecules(path: Path) -> None:
    task = MoleculeTaskConfig(source=str(path), atoms=ATOMS.atoms, nodes=3, bonds=3).make()
    x, ctx = task.evaluation("test"), task.evaluation_context("test")
    metrics = task.sample_metrics(x, ctx)
    assert (metrics["novelty"], metrics["novelty_largest"]) == (0.5, 0.5), "ethanol is known"
    path.unlink()
    without = MoleculeTaskConfig(source=str(path), atoms=ATOMS.atoms, nodes=3, bonds=3).make()
    assert "novelty" not in without.sample_metrics(x, ctx)


def test_hashes_are_kept_beside_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    first = known_hashes(path, archive(path), ATOMS, lambda *counts: told.append(counts))
    assert first.tolist() == hash_smiles(["CCO", "C1CC1", "CN"]).tolist()
    assert told == [(4, 4)]
    assert path.with_name("some.known.npz").exists()
    monkeypatch.setattr(module, "map_chunks", refuse)
    assert np.array_equal(known_hashes(path, archive(path), ATOMS), first)
    with pytest.raises(AssertionError):  # other molecules under the same name
        known_hashes(path, archive(path).select(0, 2), ATOMS)


def test_hashes_go_to_the_cache_where_the_folder_is_closed(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.with_name("some.known.npz").mkdir()  # which stops even an administrator
    first = known_hashes(path, archive(path), ATOMS)
    stored = tmp_path / "cache" / "catnf" / "molecules" / "some.known.npz"
    assert stored.exists()
    with monkeypatch.context() as patched:
        patched.setattr(module, "map_chunks", refuse)
        assert np.array_equal(known_hashes(path, archive(path), ATOMS), first)
    stored.write_bytes(b"damaged")
    assert np.array_equal(known_hashes(path, archive(path), ATOMS), first)


def test_several_processes_give_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", 2)
    found = known_hashes(path, archive(path), ATOMS, workers=2)
    assert found.tolist() == hash_smiles(["CCO", "C1CC1", "CN"]).tolist()
