"""Shares of valid, unique and new samples."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rdkit", reason="needs RDKit")

from catnf.errors import InputError
from catnf.tasks.files import find_data
from catnf.tasks.molecules.metrics import (
    PROTOCOLS,
    Measurement,
    count_new,
    hash_smiles,
    read_graphs,
    sample_metrics,
    valid_smiles,
)
from catnf.tasks.molecules.smiles import encode
from catnf.tasks.molecules.vocabulary import NEUTRAL, MolecularGraph


def graphs(*smiles: str) -> list[MolecularGraph]:
    """Neutral graphs of SMILES, several of them joined by `>` into one graph of several parts."""
    made = []
    for text in smiles:
        parts = [encode(part, NEUTRAL) for part in text.split(">")]
        atoms, bonds, before = [], [], 0
        for part in parts:
            assert isinstance(part, MolecularGraph)
            atoms.append(part.atoms)
            bonds.append(part.bonds + np.array([before, before, 0], dtype=np.uint8))
            before += len(part.atoms)
        made.append(MolecularGraph(np.concatenate(atoms), np.concatenate(bonds)))
    return made


FIVE = MolecularGraph(
    np.zeros(6, dtype=np.uint8), np.array([(0, end, 1) for end in range(1, 6)], dtype=np.uint8)
)


def test_counts_by_hand() -> None:
    samples = [
        *graphs("CCO", "OCC", "c1ccccc1", "CC>O", "CCC[N+](=O)[O-]>C", "C[N+](=O)[O-]>CCCCC"),
        FIVE,
        MolecularGraph(FIVE.atoms[:0], FIVE.bonds[:0]),
    ]
    readings = read_graphs(samples, NEUTRAL)
    assert [reading.strict for reading in readings] == ["CCO", "CCO", "c1ccccc1", *[None] * 5]
    assert [reading.largest for reading in readings[3:]] == ["CC", None, "CCCCC", None, None]
    assert [reading.corrected for reading in readings[3:]] == [
        *("CC", "CCC[N+](=O)O", "C[N+](=O)O", "CC(C)(C)C", None)
    ]
    metrics = sample_metrics(readings, {"CCO", "CC", "N"})
    counts = {
        "validity": (3 / 8, 8),
        "validity_largest": (5 / 8, 8),
        "validity_gdss": (6 / 8, 8),
        "uniqueness": (2 / 3, 3),
        "uniqueness_largest": (4 / 5, 5),
        "novelty": (1 / 3, 3),  # CCO counts twice
        "novelty_largest": (2 / 5, 5),
    }
    assert metrics == {name: Measurement(value, n, PROTOCOLS[name]) for name, (value, n) in counts.items()}
    assert valid_smiles(samples, NEUTRAL) == ["CCO", "CCO", "c1ccccc1"]


def test_shares_of_nothing_are_left_out() -> None:
    metrics = sample_metrics(read_graphs([FIVE], NEUTRAL), {"C"})
    assert {name: share.value for name, share in metrics.items()} == dict.fromkeys(
        ["validity", "validity_largest", "validity_gdss"], 0.0
    )
    assert sample_metrics([], {"C"}) == {}


def test_without_training_molecules_there_is_no_novelty() -> None:
    assert "novelty" not in sample_metrics(read_graphs(graphs("C"), NEUTRAL))


def test_hashes_know_the_same_molecules_as_their_texts() -> None:
    known = [f"C{'C' * (index % 40)}N{'O' * (index // 40)}" for index in range(400)]
    asked = [*known[::3], "c1ccccc1", "", "CCCCl", known[5]]
    hashes = hash_smiles([*known, known[0]])
    assert hashes.dtype == np.uint64
    assert len(hashes) == 400
    assert count_new(asked, hashes) == count_new(asked, set(known)) == count_new(asked, known) == 3
    assert count_new(asked, hashes[:0]) == len(asked)
    assert count_new([], hashes) == 0
    # Hashes in files must mean the same for ever.
    assert hash_smiles(["CCO"]).tolist() == [14074757553414938733]


def test_several_processes_read_the_same() -> None:
    samples = graphs("CCO", "CC>O", "C[N+](=O)[O-]") * 800
    assert read_graphs(samples, NEUTRAL, workers=2) == read_graphs(samples[:3], NEUTRAL) * 800
    with pytest.raises(InputError, match="workers is 0"):
        read_graphs(samples, NEUTRAL, workers=0)


def zinc_file(name: str) -> Path:
    found = find_data(f"zinc250k/{name}")
    if found is None:
        pytest.skip(f"needs zinc250k/{name} in CATNF_DATA")
    return found


def test_real_molecules_without_charges() -> None:
    """Those that are not valid are exactly those that are known to need a charge."""
    with lzma.open(zinc_file("zinc250k.smi.xz"), "rt") as file:
        smiles = [next(file).strip() for _ in range(1000)]
    with lzma.open(zinc_file("chargefree_invalid_idx.json.xz"), "rt") as file:
        needed = set(json.load(file))
    readings = read_graphs(graphs(*smiles), NEUTRAL)
    assert [reading.strict is None for reading in readings] == [row in needed for row in range(1000)]
    metrics = sample_metrics(readings, hash_smiles(reading.strict or "" for reading in readings))
    assert metrics["validity"].value == pytest.approx(0.95, abs=0.02)
    assert metrics["validity_largest"].value == metrics["validity"].value
    assert metrics["validity_gdss"].value == 1.0
    assert metrics["uniqueness"].value > 0.999  # some differ in stereo marks or charges only
    assert metrics["novelty"].value == 0.0
