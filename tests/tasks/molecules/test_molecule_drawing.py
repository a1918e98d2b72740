"""Pictures of molecules and of failures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rdkit", reason="needs RDKit")

from matplotlib.image import imread

from catnf.errors import InputError, StorageError
from catnf.tasks.molecules.drawing import (
    PARTS,
    WRONG,
    Color,
    draw_graphs,
    find_faults,
)
from catnf.tasks.molecules.smiles import encode
from catnf.tasks.molecules.vocabulary import NEUTRAL, MolecularGraph


def changed(smiles: str, *bonds: tuple[int, int]) -> MolecularGraph:
    """The graph of a SMILES, some rows of its bonds set to another order, 0 to remove them."""
    graph = encode(smiles, NEUTRAL)
    assert isinstance(graph, MolecularGraph)
    rows = graph.bonds.copy()
    for row, order in bonds:
        rows[row, 2] = order
    return MolecularGraph(graph.atoms, rows[rows[:, 2] > 0])


FINE = changed("CCOc1ccccc1")
TORN = changed("CCOCCN", (2, 0))
TRIPLE = changed("CC(C)=C(C)C", (2, 3))
NITRO = changed("C[N+](=O)[O-]")


def share(path: Path, color: Color) -> float:
    """Of the picture's pixels."""
    return float((np.abs(imread(path)[..., :3] - color).max(-1) < 0.02).mean())


def test_faults_are_found() -> None:
    assert find_faults(FINE, NEUTRAL)[:2] == ([], [])
    assert find_faults(TORN, NEUTRAL) == ([], [], [[0, 1, 2], [3, 4, 5]])
    assert find_faults(NITRO, NEUTRAL) == ([1], [1], [[0, 1, 2, 3]])
    # Two atoms suffer from the same bond, which is rather marked than another double bond of one of them.
    atoms, bonds, _ = find_faults(TRIPLE, NEUTRAL)
    assert TRIPLE.bonds[bonds, :2].tolist() == [atoms]
    # No bond of an ammonium could be weaker.
    assert find_faults(changed("C[N+](C)(C)C"), NEUTRAL)[:2] == ([1], [])


def test_grid_shows_what_is_wrong(tmp_path: Path) -> None:
    fine = draw_graphs(tmp_path / "new" / "fine.png", [FINE] * 3, NEUTRAL, ["one", "two", "three"], columns=2)
    assert imread(fine).shape[:2] == (520, 520)
    assert share(fine, WRONG) == share(fine, PARTS[0]) == 0.0
    wrong = draw_graphs(tmp_path / "wrong.png", [TRIPLE, NITRO], NEUTRAL)
    assert share(wrong, WRONG) > 0.005
    torn = draw_graphs(tmp_path / "torn.png", [TORN, changed("CO", (0, 0))], NEUTRAL)
    assert share(torn, PARTS[0]) > 0.005
    assert share(torn, WRONG) == 0.0


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least one"):
        draw_graphs(tmp_path / "a.png", [], NEUTRAL)
    with pytest.raises(InputError, match="2 legends for 1"):
        draw_graphs(tmp_path / "a.png", [FINE], NEUTRAL, ["a", "b"])
    with pytest.raises(InputError, match="columns is 0"):
        draw_graphs(tmp_path / "a.png", [FINE], NEUTRAL, columns=0)
    with pytest.raises(InputError, match="at most 115"):
        draw_graphs(tmp_path / "a.png", [FINE] * 200, NEUTRAL, columns=1)
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be written"):
        draw_graphs(tmp_path / "file" / "a.png", [FINE], NEUTRAL)
