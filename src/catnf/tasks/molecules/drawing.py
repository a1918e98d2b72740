"""Pictures of molecules and of graphs that are none, as PNG files; no display is needed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from catnf.errors import InputError, StorageError
from catnf.tasks.molecules.chemistry import fragments, over_valence, quiet, rdkit, to_mol
from catnf.tasks.molecules.vocabulary import MolecularGraph, Vocabulary

Color = tuple[float, float, float]

WRONG: Color = (1.0, 0.45, 0.4)
"""Behind atoms with too many bonds, and behind the bonds that should be weaker."""

PARTS: tuple[Color, ...] = ((0.72, 0.84, 1.0), (0.76, 0.92, 0.72), (0.94, 0.84, 0.66), (0.88, 0.78, 0.94))
"""Behind the second part of a disconnected graph, the third, and so on."""

_CELL = 260  # pixels of a molecule's square
_TALLEST = 30_000  # pixels of a picture, which RDKit's drawing can just make


class Cell(NamedTuple):
    """A molecule in a grid.

    Attributes:
        mol: an RDKit molecule with coordinates.
        legend: the text below.
        atoms: colors behind atoms, by number.
        bonds: colors behind bonds, by number.
    """

    mol: Any
    legend: str
    atoms: dict[int, Color]
    bonds: dict[int, Color]


class Faults(NamedTuple):
    """Why a graph is not one valid molecule.

    Attributes:
        atoms: those with more bonds than they can have.
        bonds: rows of the graph's bonds that should be weaker: for each of these atoms the strongest, rather
            one between two of them; none for an atom with single bonds only.
        parts: connected parts, the largest first.
    """

    atoms: list[int]
    bonds: list[int]
    parts: list[list[int]]


def find_faults(graph: MolecularGraph, vocabulary: Vocabulary) -> Faults:
    """The atoms, bonds and parts that make a graph invalid."""
    wrong = over_valence(graph, vocabulary)
    chosen = set()
    for atom in wrong:
        own = [
            (order, (one in wrong) + (two in wrong), -row)
            for row, (one, two, order) in enumerate(graph.bonds.tolist())
            if atom in (one, two)
        ]
        if own and max(own)[0] > 1:
            chosen.add(-max(own)[2])
    return Faults(wrong, sorted(chosen), fragments(graph))


def draw_graphs(
    path: str | os.PathLike[str],
    graphs: Sequence[MolecularGraph],
    vocabulary: Vocabulary,
    legends: Sequence[str] | None = None,
    columns: int = 5,
) -> Path:
    """Draw graphs in a grid, whatever they are.

    Of an invalid one the atoms with too many bonds and the bonds to blame are red, parts of a disconnected
    one but the largest stand on colors, and the line below says what is wrong. Bonds are drawn as they are,
    single, double or triple, in aromatic rings too.
    """
    texts = _legends(legends, len(graphs))
    cells = [_cell(graph, vocabulary, text) for graph, text in zip(graphs, texts, strict=True)]
    return _draw(path, cells, columns)


def _cell(graph: MolecularGraph, vocabulary: Vocabulary, legend: str) -> Cell:
    Chem = rdkit()
    with quiet():
        mol = to_mol(graph, vocabulary)
        mol.UpdatePropertyCache(strict=False)  # counts hydrogens, which labels name
        Chem.FastFindRings(mol)
        rdkit("Chem.rdDepictor").Compute2DCoords(mol)
    faults = find_faults(graph, vocabulary)
    words = [legend] if legend else []
    atoms: dict[int, Color] = {}
    bonds: dict[int, Color] = {}
    if len(faults.parts) > 1:
        words.append(f"{len(faults.parts)} parts")
        for number, part in enumerate(faults.parts[1:]):
            atoms |= dict.fromkeys(part, PARTS[number % len(PARTS)])
        rows = enumerate(graph.bonds.tolist())
        bonds |= {row: atoms[one] for row, (one, _, _) in rows if one in atoms}
    atoms |= dict.fromkeys(faults.atoms, WRONG)
    bonds |= dict.fromkeys(faults.bonds, WRONG)
    for atom in faults.atoms:
        label = vocabulary.atoms[graph.atoms[atom]]
        words.append(f"{label} with valence {_valence(graph, atom)}")
    return Cell(mol, ", ".join(words), atoms, bonds)


def _valence(graph: MolecularGraph, atom: int) -> int:
    """The orders of an atom's bonds, summed."""
    return int(graph.bonds[(graph.bonds[:, :2] == atom).any(1), 2].sum())


def _legends(legends: Sequence[str] | None, count: int) -> Sequence[str]:
    if legends is not None and len(legends) != count:
        raise InputError(f"There are {len(legends)} legends for {count} molecules; give one for each.")
    return [""] * count if legends is None else legends


def _draw(path: str | os.PathLike[str], cells: Sequence[Cell], columns: int) -> Path:
    if not cells:
        raise InputError("There are no molecules to draw; give at least one.")
    if columns < 1:
        raise InputError(f"columns is {columns}; give at least 1.")
    columns = min(columns, len(cells))
    rows = -(-len(cells) // columns)
    if max(rows, columns) * _CELL > _TALLEST:
        raise InputError(
            f"{len(cells)} molecules in {columns} columns do not fit into a picture; draw fewer, "
            f"at most {columns * (_TALLEST // _CELL)}."
        )
    draw = rdkit("Chem.Draw.rdMolDraw2D")
    drawer = draw.MolDraw2DCairo(columns * _CELL, rows * _CELL, _CELL, _CELL)
    options = drawer.drawOptions()
    options.prepareMolsBeforeDrawing = False  # which would refuse molecules with wrong valences
    options.drawMolsSameScale = False  # small molecules would be lost beside large ones
    options.continuousHighlight = True
    options.fillHighlights = True
    options.highlightRadius = 0.45
    options.highlightBondWidthMultiplier = 26
    options.legendFontSize = 16
    options.padding = 0.08
    with quiet():
        drawer.DrawMolecules(
            [cell.mol for cell in cells],
            legends=[cell.legend for cell in cells],
            highlightAtoms=[list(cell.atoms) for cell in cells],
            highlightBonds=[list(cell.bonds) for cell in cells],
            highlightAtomColors=[cell.atoms for cell in cells],
            highlightBondColors=[cell.bonds for cell in cells],
        )
        drawer.FinishDrawing()
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(drawer.GetDrawingText())
    except OSError as error:
        raise StorageError(f"The picture {target} cannot be written: {error}.") from error
    return target
