"""What RDKit says about graphs: nothing may be added to them, except where a protocol says so."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("rdkit", reason="needs RDKit")

from catnf.errors import InputError, MissingDependencyError
from catnf.tasks.molecules.chemistry import (
    canonical_smiles,
    fragments,
    gdss_smiles,
    gdss_valid,
    largest_fragment,
    over_valence,
    rdkit,
    read_smiles,
    strict_smiles,
    to_mol,
)
from catnf.tasks.molecules.smiles import encode
from catnf.tasks.molecules.vocabulary import NEUTRAL, MolecularGraph, Vocabulary

CHARGED = Vocabulary((*NEUTRAL.atoms, "N+", "O-"))

DRUGS = (
    "CC(C)(C)c1ccc2occ(CC(=O)Nc3ccccc3F)c2c1",
    "N#Cc1ccc(-c2ccc(O[C@@H](C(=O)N3CCCC3)c3ccccc3)cc2)cc1",
    "COc1ccc(C(=O)N(C)[C@@H](C)C/C(N)=N/O)cc1O",
    "Cc1cc(=O)[nH]c(SCC(=O)Nc2cccc(Cl)c2)n1",
)


def graph(atoms: str, *bonds: tuple[int, int, int], vocabulary: Vocabulary = NEUTRAL) -> MolecularGraph:
    """A graph of labels separated by blanks and bonds."""
    labels = [vocabulary.atoms.index(label) for label in atoms.split()]
    return MolecularGraph(np.array(labels, dtype=np.uint8), np.array(bonds, dtype=np.uint8).reshape(-1, 3))


def neutral(smiles: str) -> MolecularGraph:
    encoded = encode(smiles, NEUTRAL)
    assert isinstance(encoded, MolecularGraph)
    return encoded


BENZENE = graph("C C C C C C", (0, 1, 2), (1, 2, 1), (2, 3, 2), (3, 4, 1), (4, 5, 2), (0, 5, 1))
NITRO = graph("C N O O", (0, 1, 1), (1, 2, 2), (1, 3, 1))  # nitromethane without its charges
FIVE = graph("C C C C C C", *((0, end, 1) for end in range(1, 6)))  # a carbon with five bonds


@pytest.mark.parametrize(
    ("sample", "strict", "gdss", "corrected", "wrong"),
    [
        (BENZENE, "c1ccccc1", True, "c1ccccc1", []),
        (NITRO, None, True, "C[N+](=O)O", [1]),
        # RDKit's cleaning up would make a nitro group of these two double bonds.
        (graph("C N O O", (0, 1, 1), (1, 2, 2), (1, 3, 2)), None, False, "CN(O)O", [1]),
        (neutral("c1cccc[n+]1[O-]"), None, True, "O[n+]1ccccc1", [5]),
        (neutral("C[N+](C)(C)C"), None, True, "C[N+](C)(C)C", [1]),
        (graph("C O C C", (0, 1, 1), (1, 2, 1), (1, 3, 1)), None, True, "C[O+](C)C", [1]),
        (FIVE, None, False, "CC(C)(C)C", [0]),
        (graph("C C O", (0, 1, 1)), None, True, "CC", []),
        (graph("F C F", (0, 1, 2), (1, 2, 1)), None, False, "FCF", [0]),
        (
            graph("P F F F F F", *((0, end, 1) for end in range(1, 6))),
            "FP(F)(F)(F)F",
            True,
            "FP(F)(F)(F)F",
            [],
        ),
        (graph("C"), "C", True, "C", []),
        (graph(""), None, False, None, []),
    ],
    ids=[
        *("benzene", "nitro", "nitro with two double bonds", "N-oxide", "ammonium", "oxonium"),
        *("five bonds", "two parts", "double bond to F", "phosphorane", "methane", "nothing"),
    ],
)
def test_known_graphs(
    sample: MolecularGraph, strict: str | None, gdss: bool, corrected: str | None, wrong: list[int]
) -> None:
    assert strict_smiles(sample, NEUTRAL) == strict
    assert gdss_valid(sample, NEUTRAL) == gdss
    assert gdss_smiles(sample, NEUTRAL) == corrected
    assert over_valence(sample, NEUTRAL) == wrong


def test_charges_of_the_vocabulary_are_kept_and_none_is_added() -> None:
    nitro = graph("C N+ O O-", (0, 1, 1), (1, 2, 2), (1, 3, 1), vocabulary=CHARGED)
    assert strict_smiles(nitro, CHARGED) == "C[N+](=O)[O-]"
    uncharged = graph("C N O O", (0, 1, 1), (1, 2, 2), (1, 3, 1), vocabulary=CHARGED)
    assert strict_smiles(uncharged, CHARGED) is None
    assert gdss_valid(nitro, CHARGED)


def test_molecules_come_back_whatever_the_order_of_their_atoms() -> None:
    random = np.random.default_rng(0)
    for smiles in DRUGS:
        own = neutral(smiles)
        expected = canonical_smiles(smiles.replace("@", "").replace("/", ""))
        for _ in range(5):
            place = random.permutation(len(own.atoms))
            atoms = np.empty_like(own.atoms)
            atoms[place] = own.atoms
            ends = np.sort(place[own.bonds[:, :2]], axis=1)
            bonds = np.column_stack([ends, own.bonds[:, 2]]).astype(np.uint8)
            assert strict_smiles(MolecularGraph(atoms, bonds), NEUTRAL) == expected


def test_protocols_on_broken_molecules() -> None:
    random = np.random.default_rng(1)
    valid = 0
    for index in range(300):
        own = neutral(DRUGS[index % len(DRUGS)])
        atoms, bonds = own.atoms.copy(), own.bonds.copy()
        atoms[random.integers(len(atoms))] = random.integers(len(NEUTRAL))
        bonds[random.integers(len(bonds)), 2] = random.integers(1, 4)
        broken = MolecularGraph(atoms, bonds)
        smiles = strict_smiles(broken, NEUTRAL)
        # What is strictly valid is valid in the looser protocol, and needs no correction.
        assert smiles is None or (gdss_valid(broken, NEUTRAL) and gdss_smiles(broken, NEUTRAL) == smiles)
        corrected = gdss_smiles(broken, NEUTRAL)
        assert corrected is not None
        assert "." not in corrected
        valid += smiles is not None
    assert 0 < valid < 300


def test_largest_fragment() -> None:
    # The atoms of both parts alternate: O-O, and C=C-N.
    mixed = graph("O C O C N", (0, 2, 1), (1, 3, 2), (3, 4, 1))
    assert fragments(mixed) == [[1, 3, 4], [0, 2]]
    kept = largest_fragment(mixed)
    assert kept.atoms.tolist() == [0, 0, 1]
    assert kept.bonds.tolist() == [[0, 1, 2], [1, 2, 1]]
    assert strict_smiles(kept, NEUTRAL) == "C=CN"
    assert largest_fragment(BENZENE) is BENZENE
    # Equally large: the part of the first atom.
    assert largest_fragment(graph("N C")).atoms.tolist() == [1]


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        (MolecularGraph(np.array([9], dtype=np.uint8), BENZENE.bonds[:0]), "category 9"),
        (graph("C C", (0, 1, 1), (0, 1, 2)), "at most once"),
        (graph("C C", (0, 2, 1)), "2 atoms"),
        (graph("C C", (0, 1, 4)), "order 4"),
        (graph("C C", (0, 1, 0)), "order 0"),
    ],
)
def test_graphs_that_are_none_are_refused(wrong: MolecularGraph, word: str) -> None:
    with pytest.raises(InputError, match=word):
        to_mol(wrong, NEUTRAL)


def test_unknown_elements_and_unreadable_smiles_are_named() -> None:
    with pytest.raises(InputError, match="Xx"):
        to_mol(MolecularGraph(np.array([0], dtype=np.uint8), BENZENE.bonds[:0]), Vocabulary(("Xx",)))
    with pytest.raises(InputError, match="SMILES 2, 'C1CC'"):
        read_smiles(["CC", "C1CC"])


def test_rdkit_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    for sample in (FIVE, NITRO):
        strict_smiles(sample, NEUTRAL)
        gdss_smiles(sample, NEUTRAL)
    canonical_smiles("C1CC")
    assert capfd.readouterr() == ("", "")


def test_a_missing_rdkit_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rdkit.Chem", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'catnf\[chem\]'"):
        rdkit()


def test_modules_are_imported_without_rdkit() -> None:
    names = ["chemistry", "metrics", "fcd", "similarity", "filters", "distributions", "drawing"]
    imports = ", ".join(f"catnf.tasks.molecules.{name}" for name in names)
    code = f"import sys; sys.modules['rdkit'] = None; sys.modules['fcd_torch'] = None; import {imports}"
    subprocess.run([sys.executable, "-c", code], check=True)
