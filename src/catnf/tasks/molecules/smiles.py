"""SMILES to graphs of categories; `chemistry` has the way back.

A graph keeps elements, bonds of a Kekulé structure and, under a vocabulary with charges, formal charges. It
keeps neither hydrogens, which follow from valences, nor stereochemistry nor isotopes.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from catnf.errors import InputError, MissingDependencyError
from catnf.tasks.molecules.vocabulary import MolecularGraph, Vocabulary

try:
    from rdkit import Chem, rdBase
except ImportError as error:
    raise MissingDependencyError(
        "Molecules are read with RDKit; install it with pip install 'catnf[chem]'."
    ) from error

LARGEST = 255
"""Atoms of the largest molecule: their numbers fit in a byte, and its last value is left for padding."""

_TYPES = (Chem.BondType.ZERO, Chem.BondType.SINGLE, Chem.BondType.DOUBLE, Chem.BondType.TRIPLE)
_ORDERS = {kind: order for order, kind in enumerate(_TYPES) if order}
# What can fail for a Kekulé structure: valences, and cleaning up, which writes charges into nitro groups.
_STRICT = Chem.SanitizeFlags.SANITIZE_CLEANUP | Chem.SanitizeFlags.SANITIZE_PROPERTIES


class Refusal(StrEnum):
    """Why a line of SMILES is not used."""

    EMPTY = "empty"
    UNPARSABLE = "unparsable"
    VALENCE = "impossible valence"
    AROMATIC = "aromatic without Kekulé structure"
    SEVERAL = "several molecules"
    WILDCARD = "wildcard atom"
    LARGE = "too large"
    BOND = "unsupported bond"
    ATOM = "unknown atom"
    RADICAL = "radical"
    CHARGE = "needs a charge"


class Skeleton(NamedTuple):
    """A kekulized molecule, before its atoms become categories.

    Attributes:
        elements: atomic numbers, one for each atom, as are the next two.
        charges: formal charges.
        hydrogens: how many of them the atom has.
        bonds: `(i, j, order)` with `i < j`.
        radical: whether an atom has unpaired electrons.
    """

    elements: list[int]
    charges: list[int]
    hydrogens: list[int]
    bonds: list[tuple[int, int, int]]
    radical: bool


class Examination(NamedTuple):
    """What is left of a molecule that is told by atoms and bonds.

    Attributes:
        valid: whether it is a valid molecule.
        same: whether atoms that keep their charges have the hydrogens that they had.
    """

    valid: bool
    same: bool


def read_skeleton(text: str) -> Skeleton | Refusal:
    """Atoms and bonds of the molecule that the first word of `text` describes."""
    words = text.split()
    if not words:
        return Refusal.EMPTY
    if not (words[0].isascii() and words[0].isprintable()):
        return Refusal.UNPARSABLE  # RDKit would ignore such characters at either end
    with rdBase.BlockLogs():  # the refusal says what RDKit would print
        molecule = Chem.MolFromSmiles(words[0], sanitize=False)  # in a second step, which tells what fails
        if molecule is None:
            return Refusal.UNPARSABLE
        refusal = _sanitize(molecule)
        if refusal is not None:
            return refusal
        skeleton = _extract(molecule, "." in words[0])
        if isinstance(skeleton, Skeleton) and 1 in skeleton.elements:
            return _extract(Chem.RemoveAllHs(molecule), "." in words[0])
        return skeleton


def _sanitize(molecule: Chem.Mol) -> Refusal | None:
    failed = Chem.SanitizeMol(molecule, catchErrors=True)
    if failed == Chem.SanitizeFlags.SANITIZE_NONE:
        return None
    if failed == Chem.SanitizeFlags.SANITIZE_KEKULIZE:
        return Refusal.AROMATIC
    is_valence = failed == Chem.SanitizeFlags.SANITIZE_PROPERTIES
    return Refusal.VALENCE if is_valence else Refusal.UNPARSABLE


def _extract(molecule: Chem.Mol, dotted: bool) -> Skeleton | Refusal:
    """The atoms and bonds of a sanitized molecule; only where its SMILES is `dotted` may it be several."""
    if molecule.GetNumAtoms() == 0:
        return Refusal.EMPTY
    if dotted and len(Chem.GetMolFrags(molecule)) > 1:
        return Refusal.SEVERAL
    if molecule.GetNumHeavyAtoms() > LARGEST:
        return Refusal.LARGE
    try:
        Chem.Kekulize(molecule, clearAromaticFlags=True)
    except Chem.KekulizeException:
        return Refusal.AROMATIC
    # One loop over the atoms: making their Python objects takes longer than asking them.
    atoms = [
        (atom.GetAtomicNum(), atom.GetFormalCharge(), atom.GetTotalNumHs(), atom.GetNumRadicalElectrons())
        for atom in molecule.GetAtoms()
    ]
    elements, charges, hydrogens, electrons = (list(column) for column in zip(*atoms, strict=True))
    if 0 in elements:
        return Refusal.WILDCARD
    bonds = []
    for bond in molecule.GetBonds():
        order = _ORDERS.get(bond.GetBondType())
        if order is None:
            return Refusal.BOND
        one, two = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        bonds.append((min(one, two), max(one, two), order))
    return Skeleton(elements, charges, hydrogens, bonds, any(electrons))


def examine(skeleton: Skeleton, charged: bool) -> Examination | Refusal:
    """Build a molecule anew from its atoms, their charges where those are kept, and its bonds.

    Valences then tell the hydrogens; a radical, which would get some more, is refused.
    """
    charges = skeleton.charges if charged else [0] * len(skeleton.charges)
    molecule = _build(skeleton.elements, charges, skeleton.bonds)
    with rdBase.BlockLogs():
        hydrogens = _hydrogens(molecule, charges)
    if hydrogens is None:
        return Examination(valid=False, same=False)
    dropped = zip(skeleton.charges, charges, strict=True)
    pairs = zip(skeleton.hydrogens, hydrogens, strict=True)
    same = all(
        had == has for (had, has), (charge, kept) in zip(pairs, dropped, strict=True) if charge == kept
    )
    return Refusal.RADICAL if skeleton.radical and not same else Examination(True, same)


def encode(text: str, vocabulary: Vocabulary) -> MolecularGraph | Refusal:
    """The graph of a SMILES, its atoms in the order of the text.

    A vocabulary without charges drops them: `chemistry.strict_smiles` tells whether a molecule is left.
    """
    skeleton = read_skeleton(text)
    if isinstance(skeleton, Refusal):
        return skeleton
    table = atom_categories(vocabulary)
    pairs = zip(skeleton.elements, skeleton.charges, strict=True)
    atoms = [table.get((element, charge if vocabulary.charged else 0)) for element, charge in pairs]
    if None in atoms:
        return Refusal.ATOM
    outcome = examine(skeleton, vocabulary.charged)
    if isinstance(outcome, Refusal):
        return outcome
    bonds = np.array(skeleton.bonds, dtype=np.uint8).reshape(-1, 3)
    return MolecularGraph(np.array(atoms, dtype=np.uint8), bonds)


def _build(elements: Sequence[int], charges: Sequence[int], bonds: Sequence[Sequence[int]]) -> Chem.RWMol:
    """A molecule of atomic numbers, formal charges and bonds `(i, j, order)`; valences are not checked."""
    molecule = Chem.RWMol()
    for element, charge in zip(elements, charges, strict=True):
        atom = Chem.Atom(element)
        if charge:
            atom.SetFormalCharge(charge)
        molecule.AddAtom(atom)
    for one, two, order in bonds:
        molecule.AddBond(one, two, _TYPES[order])
    return molecule


def atom_categories(vocabulary: Vocabulary) -> dict[tuple[int, int], int]:
    """Categories by atomic number and formal charge."""
    return {pair: category for category, pair in enumerate(_elements(vocabulary))}


def element_symbol(element: int) -> str:
    """The symbol of an atomic number."""
    return str(Chem.GetPeriodicTable().GetElementSymbol(element))


def _hydrogens(molecule: Chem.RWMol, charges: Sequence[int]) -> list[int] | None:
    """Hydrogens of the atoms, or `None` where the checks fail or change charges."""
    if Chem.SanitizeMol(molecule, _STRICT, catchErrors=True) != Chem.SanitizeFlags.SANITIZE_NONE:
        return None
    found = [(atom.GetFormalCharge(), atom.GetTotalNumHs()) for atom in molecule.GetAtoms()]
    same = all(has == should for (has, _), should in zip(found, charges, strict=True))
    return [hydrogens for _, hydrogens in found] if same else None


@lru_cache(maxsize=16)
def _elements(vocabulary: Vocabulary) -> tuple[tuple[int, int], ...]:
    """Atomic number and formal charge of every category."""
    pairs = []
    for label in vocabulary.atoms:
        symbol, charge = vocabulary.parse(label)
        try:
            with rdBase.BlockLogs():
                pairs.append((Chem.GetPeriodicTable().GetAtomicNumber(symbol), charge))
        except RuntimeError as error:
            raise InputError(f"There is no element {symbol!r}; write symbols such as C, N or Cl.") from error
    return tuple(pairs)
