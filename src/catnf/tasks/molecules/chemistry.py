"""From graphs to chemistry: what RDKit says about a graph, and nothing added to it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from catnf.errors import InputError, MissingDependencyError
from catnf.tasks.molecules.vocabulary import MolecularGraph, Vocabulary

_CHARGEABLE = {"N": 3, "O": 2, "S": 2}  # usual valences of what may take a charge in the GDSS protocol


def rdkit(module: str = "Chem") -> Any:
    """A module of RDKit, or one sentence that names what to install."""
    try:
        return import_module(f"rdkit.{module}")
    except ImportError as error:
        raise MissingDependencyError(
            "Molecules need RDKit; install it with pip install 'catnf[chem]'."
        ) from error


def quiet() -> Any:
    """A context in which RDKit does not print what is wrong with a molecule."""
    return rdkit("rdBase").BlockLogs()


def to_mol(graph: MolecularGraph, vocabulary: Vocabulary) -> Any:
    """The graph as an editable RDKit molecule: not sanitized, no hydrogens, only the charges of its atoms."""
    atoms, kinds = _parts(vocabulary)
    if len(graph.atoms) and graph.atoms.max() >= len(atoms):
        raise InputError(
            f"The graph has an atom of category {graph.atoms.max()}, but the vocabulary ends at "
            f"{len(atoms) - 1}; give the vocabulary that the graph was made with."
        )
    mol = rdkit().RWMol()
    for category in graph.atoms.tolist():
        mol.AddAtom(atoms[category])
    try:
        with quiet():
            for one, two, order in graph.bonds.tolist():
                mol.AddBond(one, two, kinds[order])
    except (KeyError, RuntimeError) as error:  # RDKit's, where an atom is missing or two are joined already
        raise InputError(
            f"The bond {one} {two} of order {order} cannot be added; join every two of the "
            f"{len(graph.atoms)} atoms at most once, with order 1, 2 or 3."
        ) from error
    return mol


@lru_cache(maxsize=8)
def _parts(vocabulary: Vocabulary) -> tuple[list[Any], dict[int, Any]]:
    """Atoms by category, which RDKit copies into molecules, and kinds of bonds by order."""
    Chem = rdkit()
    atoms = []
    for label in vocabulary.atoms:
        symbol, charge = Vocabulary.parse(label)
        try:
            with quiet():
                atom = Chem.Atom(symbol)
        except RuntimeError as error:
            raise InputError(
                f"{symbol!r} is not a chemical element; write its symbol, such as Cl."
            ) from error
        atom.SetFormalCharge(charge)
        atoms.append(atom)
    kinds = Chem.BondType
    return atoms, {1: kinds.SINGLE, 2: kinds.DOUBLE, 3: kinds.TRIPLE}


def strict_smiles(graph: MolecularGraph, vocabulary: Vocabulary) -> str | None:
    """The canonical SMILES of a graph, or None where it is not valid as the paper counts.

    Valid is a graph that is connected and that RDKit sanitizes as it is, no charge added and no bond changed;
    its SMILES must be readable again.
    """
    if len(graph.atoms) == 0:
        return None
    Chem = rdkit()
    with quiet():
        mol = to_mol(graph, vocabulary)
        # RDKit would begin by cleaning up, that is by charging nitro groups and the like.
        steps = Chem.SanitizeFlags.SANITIZE_ALL ^ Chem.SanitizeFlags.SANITIZE_CLEANUP
        # No error is raised for the many samples that fail: that would take longer than the check.
        if Chem.SanitizeMol(mol, steps, catchErrors=True) != Chem.SanitizeFlags.SANITIZE_NONE:
            return None
        if len(Chem.GetMolFrags(mol)) > 1:
            return None
        smiles = str(Chem.MolToSmiles(mol))
        return None if Chem.MolFromSmiles(smiles) is None else smiles


def loose_smiles(graph: MolecularGraph, vocabulary: Vocabulary) -> str:
    """A SMILES of any graph, valid or not, its parts separated by dots; of a valid one not the canonical one.

    RDKit may be unable to read it again, and then `Chem.MolFromSmiles(smiles, sanitize=False)` can.
    """
    with quiet():
        mol = to_mol(graph, vocabulary)
        mol.UpdatePropertyCache(strict=False)  # counts hydrogens, which SMILES need
        return str(rdkit().MolToSmiles(mol))


def canonical_smiles(smiles: str) -> str | None:
    """What RDKit writes for a SMILES, or None where it cannot be read.

    >>> canonical_smiles("C1=CC=CC=C1O"), canonical_smiles("C1CC")
    ('Oc1ccccc1', None)
    """
    Chem = rdkit()
    with quiet():
        mol = Chem.MolFromSmiles(smiles)
        return None if mol is None else Chem.MolToSmiles(mol)


def read_smiles(smiles: Sequence[str]) -> list[Any]:
    """RDKit's molecules, or `InputError` for the first SMILES that cannot be read."""
    Chem = rdkit()
    mols = []
    with quiet():
        for number, text in enumerate(smiles, 1):
            mol = Chem.MolFromSmiles(text)
            if mol is None:
                raise InputError(f"SMILES {number}, {text!r}, cannot be read; give valid molecules only.")
            mols.append(mol)
    return mols


def fragments(graph: MolecularGraph) -> list[list[int]]:
    """Connected parts as sorted numbers of atoms, the largest first, then by their first atoms."""
    neighbours: list[list[int]] = [[] for _ in graph.atoms]
    for one, two, _ in graph.bonds.tolist():
        neighbours[one].append(two)
        neighbours[two].append(one)
    parts = []
    unseen = set(range(len(graph.atoms)))
    for start in range(len(graph.atoms)):
        if start not in unseen:
            continue
        unseen.discard(start)
        part, stack = [start], [start]
        while stack:
            for other in neighbours[stack.pop()]:
                if other in unseen:
                    unseen.discard(other)
                    part.append(other)
                    stack.append(other)
        parts.append(sorted(part))
    return sorted(parts, key=len, reverse=True)


def largest_fragment(graph: MolecularGraph) -> MolecularGraph:
    """The connected part with most atoms; of equally large ones that with the first atom."""
    parts = fragments(graph)
    if len(parts) < 2:
        return graph
    kept = np.array(parts[0])
    place = np.full(len(graph.atoms), -1, dtype=np.int64)
    place[kept] = np.arange(len(kept))
    bonds = graph.bonds[place[graph.bonds[:, 0]] >= 0].copy()
    bonds[:, :2] = place[bonds[:, :2]]
    return MolecularGraph(graph.atoms[kept], bonds)


def over_valence(graph: MolecularGraph, vocabulary: Vocabulary) -> list[int]:
    """Atoms with more bonds than their element and charge allow, in order."""
    with quiet():
        return _over_valence(to_mol(graph, vocabulary))


def _over_valence(mol: Any) -> list[int]:
    Chem = rdkit()
    problems = Chem.DetectChemistryProblems(mol, Chem.SanitizeFlags.SANITIZE_PROPERTIES)
    return [p.GetAtomIdx() for p in problems if p.GetType() == "AtomValenceException"]


def gdss_valid(graph: MolecularGraph, vocabulary: Vocabulary) -> bool:
    """Whether a graph is valid in the GDSS protocol.

    Only valences count: an uncharged N, O or S with one bond too many takes the charge +1, and parts need not
    be connected.
    """
    with quiet():
        return len(graph.atoms) > 0 and not _over_valence(_charged(graph, vocabulary))


def gdss_smiles(graph: MolecularGraph, vocabulary: Vocabulary) -> str | None:
    """The canonical SMILES that the GDSS protocol makes of any graph, for its FCD.

    N, O and S are charged as in `gdss_valid`; as long as an atom has too many bonds, the strongest of them is
    weakened by one; of what is then disconnected the part with the longest SMILES is kept. None where RDKit
    cannot read the result.
    """
    if len(graph.atoms) == 0:
        return None
    Chem = rdkit()
    with quiet():
        mol = _charged(graph, vocabulary)
        while wrong := _over_valence(mol):
            bonds = mol.GetAtomWithIdx(wrong[0]).GetBonds()
            _weaken(mol, max(bonds, key=lambda bond: bond.GetBondTypeAsDouble()))
        mol.UpdatePropertyCache(strict=False)  # counts hydrogens, which SMILES need
        return canonical_smiles(max(Chem.MolToSmiles(mol).split("."), key=len))


def _charged(graph: MolecularGraph, vocabulary: Vocabulary) -> Any:
    """The molecule with the charges that the GDSS protocol adds.

    They are set on the finished graph. GDSS sets them while it adds bond after bond and looks at one fault at
    a time, which makes no difference to whether a graph is valid, but may to how one with several faults is
    corrected.
    """
    mol = to_mol(graph, vocabulary)
    for index in _over_valence(mol):
        atom = mol.GetAtomWithIdx(index)
        valence = sum(int(bond.GetBondTypeAsDouble()) for bond in atom.GetBonds())
        usual = _CHARGEABLE.get(atom.GetSymbol())
        if usual is not None and atom.GetFormalCharge() == 0 and valence == usual + 1:
            atom.SetFormalCharge(1)
    return mol


def _weaken(mol: Any, bond: Any) -> None:
    """Lower the order of a bond by one; a single bond goes."""
    kinds = rdkit().BondType
    lower = {kinds.TRIPLE: kinds.DOUBLE, kinds.DOUBLE: kinds.SINGLE}.get(bond.GetBondType())
    if lower is None:
        mol.RemoveBond(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())
    else:
        bond.SetBondType(lower)
