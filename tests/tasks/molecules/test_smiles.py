"""SMILES to graphs and back."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rdkit", reason="needs RDKit")

from hypothesis import given
from hypothesis import strategies as st
from rdkit import Chem

from catnf.errors import InputError
from catnf.tasks.molecules.chemistry import strict_smiles
from catnf.tasks.molecules.smiles import (
    Refusal,
    atom_categories,
    encode,
    examine,
    read_skeleton,
)
from catnf.tasks.molecules.vocabulary import NEUTRAL, MolecularGraph, Vocabulary

CHARGED = Vocabulary(("C", "N", "O", "N+", "O-", "S", "F", "Cl", "P", "Br", "I", "N-", "S-", "B", "Si", "S+"))

MOLECULES = (
    *(
        "C",
        "CCO",
        "C#N",
        "CC(=O)[O-]",
        "C[N+](C)(C)C",
        "C[N+](=O)[O-]",
        "[NH4+]",
        "FC(F)(F)Br",
        "OB(O)c1ccccc1",
    ),
    *("c1ccccc1", "c1ccc2[nH]ccc2c1", "Cn1cnc2c1c(=O)n(C)c(=O)n2C", "C[n+]1ccccc1", "O=S(=O)(N)c1ccc(I)cc1"),
    *("CC(C)(C)c1ccc2occ(CC(=O)Nc3ccccc3F)c2c1", "C[C@@H]1CC(Nc2cncc(-c3nncn3C)c2)C[C@@H](C)C1", "C/C=C/C"),
    *(
        "[13CH3]O",
        "[2H]C([2H])Cl",
        "OP(=O)(O)OC",
        "C[Si](C)(C)C#CC1CC1",
        "C1.C1",
        "CN=[N+]=[N-]",
        "C[S+](C)[O-]",
    ),
    *("O=c1[n-]c(=S)[nH]c2ccccc12", "CC[NH+]1CCC[C@H]1c1ccc[nH]c1=O", "C12C3C4C1C5C2C3C45", "[S-]c1ccccc1"),
)


def plain(smiles: str) -> str:
    """The canonical SMILES without what a graph does not keep."""
    molecule = Chem.RemoveAllHs(Chem.MolFromSmiles(smiles))
    for atom in molecule.GetAtoms():
        atom.SetIsotope(0)
    return Chem.CanonSmiles(Chem.MolToSmiles(molecule, isomericSmiles=False))


def encoded(smiles: str, vocabulary: Vocabulary = CHARGED) -> MolecularGraph:
    graph = encode(smiles, vocabulary)
    assert isinstance(graph, MolecularGraph), graph
    return graph


@pytest.mark.parametrize("smiles", MOLECULES)
def test_charged_graphs_lose_nothing(smiles: str) -> None:
    graph = encoded(smiles)
    assert strict_smiles(graph, CHARGED) == plain(smiles)
    assert graph.atoms.dtype == graph.bonds.dtype == np.uint8
    assert graph.bonds.shape == (len(graph.bonds), 3)
    assert (graph.bonds[:, 0] < graph.bonds[:, 1]).all()
    assert set(graph.bonds[:, 2].tolist()) <= {1, 2, 3}


@given(st.sampled_from(MOLECULES), st.randoms(use_true_random=False))
def test_every_way_to_write_a_molecule_is_read(smiles: str, random: object) -> None:
    seed = random.randrange(2**30)  # type: ignore[attr-defined]
    molecule = Chem.MolFromSmiles(smiles)
    for kekulized in (False, True):
        written = Chem.MolToRandomSmilesVect(molecule, 1, randomSeed=seed, kekuleSmiles=kekulized)[0]
        assert strict_smiles(encoded(written), CHARGED) == plain(smiles)


@given(st.sampled_from(MOLECULES), st.randoms(use_true_random=False))
def test_the_order_of_atoms_does_not_matter(smiles: str, random: object) -> None:
    graph = encoded(smiles)
    place = list(range(len(graph.atoms)))
    random.shuffle(place)  # type: ignore[attr-defined]
    moved = np.array(place)
    ends = np.sort(moved[graph.bonds[:, :2].astype(int)].reshape(-1, 2), axis=1)
    atoms = np.empty_like(graph.atoms)
    atoms[moved] = graph.atoms
    bonds = np.concatenate([ends, graph.bonds[:, 2:]], axis=1).astype(np.uint8)
    assert strict_smiles(MolecularGraph(atoms, bonds), CHARGED) == plain(smiles)


@pytest.mark.parametrize(
    ("smiles", "kept"),
    [
        ("CCO", "CCO"),
        ("CC(=O)[O-]", "CC(=O)O"),
        ("C[NH3+]", "CN"),
        ("C[N+](=O)[O-]", None),
        ("CN(=O)=O", None),
        ("C[n+]1ccccc1", None),
        ("C[N+](C)(C)C", None),
    ],
)
def test_without_charges_some_molecules_are_none(smiles: str, kept: str | None) -> None:
    graph = encoded(smiles, NEUTRAL)
    assert strict_smiles(graph, NEUTRAL) == kept
    skeleton = read_skeleton(smiles)
    assert not isinstance(skeleton, Refusal)
    assert examine(skeleton, charged=False) == (kept is not None, kept is not None)
    assert examine(skeleton, charged=True) == (True, True)


@pytest.mark.parametrize(
    ("smiles", "reason"),
    [
        ("", Refusal.EMPTY),
        ("  \t", Refusal.EMPTY),
        ("[H][H]", Refusal.EMPTY),
        ("C1CC", Refusal.UNPARSABLE),
        ("hello", Refusal.UNPARSABLE),
        ("CC>>CO", Refusal.UNPARSABLE),
        ("C\u00e9", Refusal.UNPARSABLE),
        ("C(C)(C)(C)(C)C", Refusal.VALENCE),
        ("c1cccc1", Refusal.AROMATIC),
        ("c1cc2ccccc2c1C", Refusal.AROMATIC),
        ("[Na+].[Cl-]", Refusal.SEVERAL),
        ("CC.O", Refusal.SEVERAL),
        ("*CC", Refusal.WILDCARD),
        ("C" * 256, Refusal.LARGE),
        ("C$C", Refusal.BOND),
        ("C~C", Refusal.BOND),
        ("N->[Fe]", Refusal.BOND),
        ("C[Se]C", Refusal.ATOM),
        ("C[CH2]", Refusal.RADICAL),
        ("[CH2]C[NH3+]", Refusal.RADICAL),
    ],
)
def test_refusals(smiles: str, reason: Refusal, capfd: pytest.CaptureFixture[str]) -> None:
    for vocabulary in (NEUTRAL, CHARGED):
        assert encode(smiles, vocabulary) == reason
    assert capfd.readouterr() == ("", ""), "RDKit says nothing"


def test_only_valences_tell_hydrogens() -> None:
    skeleton = read_skeleton("O=[PH2]C")
    assert not isinstance(skeleton, Refusal)
    assert examine(skeleton, charged=True) == (True, False)
    assert strict_smiles(encoded("O=[PH2]C"), CHARGED) == "CP=O"


def test_the_largest_molecule_is_read() -> None:
    assert len(encoded("C" * 255, NEUTRAL).atoms) == 255
    assert len(encoded("C([H])([H])" * 200, NEUTRAL).atoms) == 200, "hydrogens do not count"


def test_graphs_that_are_no_molecules() -> None:
    def graph(atoms: list[int], *bonds: tuple[int, int, int]) -> MolecularGraph:
        return MolecularGraph(np.array(atoms, np.uint8), np.array(bonds, np.uint8).reshape(-1, 3))

    carbon, nitrogen, oxygen = 0, 1, 2
    assert strict_smiles(graph([carbon, carbon], (0, 1, 3)), NEUTRAL) is not None
    assert strict_smiles(graph([carbon, carbon]), NEUTRAL) is None, "two pieces"
    assert strict_smiles(graph([]), NEUTRAL) is None
    assert strict_smiles(graph([oxygen, carbon], (0, 1, 3)), NEUTRAL) is None, "too many bonds"
    # RDKit would read this as a nitro group, by adding two charges.
    nitro = graph([carbon, nitrogen, oxygen, oxygen], (0, 1, 1), (1, 2, 2), (1, 3, 2))
    assert strict_smiles(nitro, NEUTRAL) is None


def test_vocabularies_must_name_elements() -> None:
    assert atom_categories(Vocabulary(("N+", "C"))) == {(7, 1): 0, (6, 0): 1}
    with pytest.raises(InputError, match="There is no element 'Xx'"):
        encode("C", Vocabulary(("Xx",)))
