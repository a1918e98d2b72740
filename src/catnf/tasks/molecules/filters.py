"""The filters of the MOSES benchmark: what medicinal chemists would not make.

A molecule passes that has no charge, no other atoms than C, N, S, O, F, Cl, Br and H, no ring of eight or
more atoms, no substructure of PAINS (the 480 patterns of WEHI, which come with RDKit) and none of MOSES' own
medicinal chemistry filters (MCF). These are written here by the groups they name. Three of them, for furans,
thiophenes and anilines, are left out: MOSES draws them with alternating bonds, and so they never match the
aromatic rings that they mean.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from catnf.errors import MissingDependencyError
from catnf.processes import map_chunks
from catnf.tasks.molecules.chemistry import quiet, rdkit, read_smiles

ELEMENTS = frozenset({"C", "N", "S", "O", "F", "Cl", "Br", "H"})
LARGEST_RING = 7

MOST_HALOGENS = {"Br": 2, "Cl": 3, "F": 6}
"""How many atoms a molecule may have."""

GROUPS = {
    "acyclic alkene with a nitrile": "[#6]=!@[#6]-C#N",
    "acyclic vinyl sulfone": "[#6]=!@[#6]-S(=O)=O",
    "acrylamide": "[#6]=!@[#6;!H0]-!@C(=O)-!@[#7]",
    "primary alkyl halide": "[#6]-[C;H2]-[F,Cl,Br,I]",
    "epoxide": "C1-O-C-1",
    "isocyanate": "[#6]-N=C=O",
    "formyl": "O=[#6;!H0]",
    "acyclic imine or amidine": "[#7;!H0]=!@[#6]-!@[#6,#7,#8,#16]",
    "aziridine": "C1-N-C-1",
    "acyclic hydrazine or hydrazone": "[#6]~!@[#7]~!@[#7]~!@[#6]",
    "azo": "[#7]=!@[#7]",
    "halogen beside an aromatic heteroatom": "[Cl,Br,I]-c:[!#1;!#6]",
    "disulfide": "[#16]~[#16]",
    "three nitrogens in a chain": "[#7]~!@[#7]~!@[#7]",
    "acyclic aminal": "[#7]-!@[#6;!H0;!H1]-!@[#7]",
    "acyclic acetal": "[#8]-!@[#6;!H0]-!@[#8]",
}
"""SMARTS of MOSES' medicinal chemistry filters, those that count halogens aside."""


def passes_filters(
    smiles: Sequence[str], workers: int = 1, progress: Callable[[int], None] = lambda count: None
) -> list[bool]:
    """Which valid SMILES pass all filters; `progress` is told how many more are looked at."""
    return map_chunks(_passes, smiles, workers, progress=progress)


def _passes(smiles: Sequence[str]) -> list[bool]:
    Chem = rdkit()
    with quiet():
        patterns = _patterns()
        passed = []
        for mol in read_smiles(smiles):
            # Patterns of PAINS spell hydrogens out.
            passed.append(_plain(mol) and not patterns.HasMatch(Chem.AddHs(mol)))
        return passed


def _plain(mol: Any) -> bool:
    """Whether charges, elements, rings and halogens are those of a molecule that passes."""
    counts = Counter(atom.GetSymbol() for atom in mol.GetAtoms())
    return (
        ELEMENTS.issuperset(counts)
        and not any(atom.GetFormalCharge() for atom in mol.GetAtoms())
        and all(len(ring) <= LARGEST_RING for ring in mol.GetRingInfo().AtomRings())
        and all(counts[symbol] <= most for symbol, most in MOST_HALOGENS.items())
    )


def _patterns() -> Any:
    """A catalog of all patterns, which RDKit searches in one call."""
    catalogs = rdkit("Chem.rdfiltercatalog")
    catalog = catalogs.FilterCatalog()
    for name, smarts in [*GROUPS.items(), *_pains()]:
        matcher = catalogs.SmartsMatcher(name, smarts, 1)
        catalog.AddEntry(catalogs.FilterCatalogEntry(name, matcher))
    return catalog


def _pains() -> list[tuple[str, str]]:
    """Names and SMARTS of PAINS, from the file in RDKit's data folder."""
    path = Path(rdkit("RDConfig").RDDataDir) / "Pains" / "wehi_pains.csv"
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return [(name, smarts.strip()) for smarts, name in csv.reader(file)]
    except OSError as error:
        raise MissingDependencyError(
            f"RDKit's list of PAINS, {path}, cannot be read; install RDKit with pip install 'catnf[chem]'."
        ) from error
