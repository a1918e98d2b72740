"""From SMILES to an archive of molecules, on all cores; what cannot be used is counted and listed."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from catnf.errors import InputError, StorageError
from catnf.processes import in_processes
from catnf.storage import make_folder, write_text
from catnf.tasks.cores import available_cores
from catnf.tasks.molecules.archive import PADDING, MoleculeArchive, MoleculeData
from catnf.tasks.molecules.smiles import (
    Examination,
    Refusal,
    Skeleton,
    atom_categories,
    element_symbol,
    examine,
    read_skeleton,
)
from catnf.tasks.molecules.sources import Shares, Source, shares_of
from catnf.tasks.molecules.vocabulary import NEUTRAL, MolecularGraph, Vocabulary

Kind = Literal["neutral", "charged"]


@dataclass(frozen=True)
class Summary:
    """What became of the lines of a source.

    Attributes:
        source: its name.
        rule: how it is split.
        vocabulary: `neutral` or `charged`.
        counts: molecules of every split.
        valid: those of them that are valid as their categories tell them.
        altered: those of them that have other hydrogens than written, since only valences tell these.
        refused: lines that are not used, by split and reason.
        atoms: labels of the categories.
        largest: the most atoms, and the most bonds, of a molecule.
        digest: of the lines, to tell whether they have changed.
        rdkit: the version that read them.
        fingerprint: of the molecules.
    """

    source: str
    rule: str
    vocabulary: str
    counts: Mapping[str, int]
    valid: Mapping[str, int]
    altered: Mapping[str, int]
    refused: Mapping[str, Mapping[str, int]]
    atoms: Sequence[str]
    largest: Sequence[int]
    digest: str
    rdkit: str
    fingerprint: str = ""


class Piece(NamedTuple):
    """What some lines hold.

    Attributes:
        archive: the molecules, with atomic numbers in place of categories.
        charges: formal charges of their atoms, one after another.
        altered: whether a valid molecule has other hydrogens than written, `[molecules]`.
        rows: which line every molecule comes from, `[molecules]`.
        refused: other lines, with the reasons.
    """

    archive: MoleculeArchive
    charges: NDArray[np.int16]
    altered: NDArray[np.bool_]
    rows: NDArray[np.int64]
    refused: list[tuple[int, Refusal]]

    def drop(self, unwanted: NDArray[np.bool_], reason: Refusal) -> Piece:
        """The piece without the `unwanted: [molecules]`, which are refused."""
        kept = np.flatnonzero(~unwanted)
        refused = [(row, reason) for row in self.rows[unwanted].tolist()]
        charges = self.charges[np.repeat(~unwanted, self.archive.sizes)]
        return Piece(
            self.archive.take(kept), charges, self.altered[kept], self.rows[kept], self.refused + refused
        )


def read_piece(smiles: Sequence[str], charged: bool) -> Piece:
    """Read SMILES; where charges are not kept, molecules that need them are marked as not valid."""
    graphs, charges, outcomes, rows, refused = [], [], [], [], []
    for row, text in enumerate(smiles):
        found = _read(text, charged)
        if isinstance(found, Refusal):
            refused.append((row, found))
            continue
        skeleton, outcome = found
        bonds = np.array(skeleton.bonds, dtype=np.uint8).reshape(-1, 3)
        graphs.append(MolecularGraph(np.array(skeleton.elements, dtype=np.uint8), bonds))
        charges.extend(skeleton.charges if charged else [0] * len(skeleton.charges))
        outcomes.append(outcome)
        rows.append(row)
    return Piece(
        MoleculeArchive.pack(graphs, [outcome.valid for outcome in outcomes]),
        np.array(charges, dtype=np.int16),
        np.array([outcome.valid and not outcome.same for outcome in outcomes], dtype=bool),
        np.array(rows, dtype=np.int64),
        refused,
    )


def _read(text: str, charged: bool) -> tuple[Skeleton, Examination] | Refusal:
    skeleton = read_skeleton(text)
    if isinstance(skeleton, Refusal):
        return skeleton
    outcome = examine(skeleton, charged)
    return outcome if isinstance(outcome, Refusal) else (skeleton, outcome)


def prepare(
    source: Source,
    kind: Kind,
    path: Path,
    workers: int | None = None,
    progress: Callable[[int], None] = lambda count: None,
    at_once: int = 4000,
) -> Summary:
    """Read the molecules of a source and write them to `path`, and the lines that are not used beside it.

    Does nothing where `path` holds these molecules already. The outcome does not depend on the number of
    workers. Without charges, molecules that need one do not train; validation and test keep them, marked.

    Args:
        source: the SMILES.
        kind: of the vocabulary: `neutral` for the paper's nine elements, charges dropped, or `charged` for
            all elements and charges that the training molecules have.
        path: file to write.
        workers: processes; all cores by default.
        progress: called with the number of further lines that are read.
        at_once: lines that a process reads at a time.
    """
    finished = _finished(path, source, kind)
    if finished is not None:
        progress(len(source))
        return finished
    workers = workers if workers is not None else available_cores()
    if workers < 1:
        raise InputError(f"workers is {workers}; give at least 1.")
    make_folder(path.parent)  # before the work whose outcome goes there
    pieces = _read_all(source, kind == "charged", workers, progress, at_once)
    vocabulary = find_vocabulary(pieces["train"]) if kind == "charged" else NEUTRAL
    for name, piece in pieces.items():
        atoms = _categories(piece, vocabulary)
        known = replace(piece.archive, atoms=atoms)
        strangers = np.bincount(_owners(known)[atoms == PADDING], minlength=len(known)) > 0
        chosen = piece._replace(archive=known).drop(strangers, Refusal.ATOM)
        pieces[name] = chosen.drop(~chosen.archive.valid, Refusal.CHARGE) if name == "train" else chosen
    write_text(refused_path(path), _refused_table(source, pieces))
    if len(pieces["train"].archive) == 0:
        raise InputError(f"No molecule of {source.name} can train; {refused_path(path)} says why.")
    splits = {name: piece.archive for name, piece in pieces.items()}
    largest = [split.largest for split in splits.values()]
    summary = Summary(
        source.name,
        source.rule,
        kind,
        {name: len(split) for name, split in splits.items()},
        {name: int(split.valid.sum()) for name, split in splits.items()},
        {name: int(piece.altered.sum()) for name, piece in pieces.items()},
        {name: dict(Counter(str(why) for _, why in piece.refused)) for name, piece in pieces.items()},
        vocabulary.atoms,
        [max(atoms for atoms, _ in largest), max(bonds for _, bonds in largest)],
        source.digest(),
        version("rdkit"),
    )
    summary = replace(summary, fingerprint=MoleculeData(vocabulary, splits, {}).fingerprint())
    MoleculeData(vocabulary, splits, asdict(summary)).save(path)
    return summary


def find_vocabulary(piece: Piece) -> Vocabulary:
    """All elements with their charges, the most frequent first."""
    pairs, counts = np.unique(
        np.stack([piece.archive.atoms.astype(np.int16), piece.charges]), axis=1, return_counts=True
    )
    labels = [Vocabulary.label(element_symbol(element), charge) for element, charge in pairs.T.tolist()]
    order = sorted(range(len(labels)), key=lambda place: (-int(counts[place]), labels[place]))
    if not 0 < len(labels) <= PADDING:
        raise InputError(
            f"The training molecules have {len(labels)} kinds of atoms; give a file with 1 to {PADDING}."
        )
    return Vocabulary(tuple(labels[place] for place in order))


def refused_path(path: Path) -> Path:
    """The table of lines that are not used, beside an archive."""
    return path.with_name(f"{path.stem}.refused.csv")


def _finished(path: Path, source: Source, kind: Kind) -> Summary | None:
    """The summary of the file at `path`, if it holds the molecules of the source."""
    try:
        summary = Summary(**MoleculeData.load(path, names=()).about)
    except (StorageError, TypeError):
        return None
    same = (summary.digest, summary.vocabulary, summary.rule) == (source.digest(), kind, source.rule)
    return summary if same and refused_path(path).exists() else None


def prepared_shares(path: Path) -> Shares | None:
    """By which shares the molecules at `path` were split; `None` where there are none, or another rule."""
    try:
        return shares_of(str(MoleculeData.load(path, names=()).about.get("rule", "")))
    except StorageError:
        return None


def _read_all(
    source: Source, charged: bool, workers: int, progress: Callable[[int], None], at_once: int
) -> dict[str, Piece]:
    """All lines of every split; the pieces come in order whichever is read first."""
    places = [
        (name, start) for name, rows in source.splits.items() for start in range(0, len(rows.smiles), at_once)
    ]
    texts = [source.splits[name].smiles[start : start + at_once] for name, start in places]
    read = in_processes(partial(read_piece, charged=charged), texts, workers)
    found: dict[str, list[Piece]] = {name: [] for name in source.splits}
    for (name, start), piece in zip(places, read, strict=True):
        refused = [(start + row, reason) for row, reason in piece.refused]
        found[name].append(piece._replace(rows=piece.rows + start, refused=refused))
        progress(len(piece.rows) + len(refused))
    return {name: _join(pieces) for name, pieces in found.items()}


def _join(pieces: Sequence[Piece]) -> Piece:
    return Piece(
        MoleculeArchive.join([piece.archive for piece in pieces]),
        np.concatenate([np.zeros(0, np.int16), *(piece.charges for piece in pieces)]),
        np.concatenate([np.zeros(0, bool), *(piece.altered for piece in pieces)]),
        np.concatenate([np.zeros(0, np.int64), *(piece.rows for piece in pieces)]),
        [refused for piece in pieces for refused in piece.refused],
    )


def _categories(piece: Piece, vocabulary: Vocabulary) -> NDArray[np.uint8]:
    """Categories of all atoms, `PADDING` for those that the vocabulary does not have."""
    categories = np.full(len(piece.charges), PADDING, dtype=np.uint8)
    for (element, charge), category in atom_categories(vocabulary).items():
        categories[(piece.archive.atoms == element) & (piece.charges == charge)] = category
    return categories


def _owners(archive: MoleculeArchive) -> NDArray[np.int64]:
    """The molecule that every atom belongs to."""
    return np.repeat(np.arange(len(archive)), archive.sizes)


def _refused_table(source: Source, pieces: Mapping[str, Piece]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["split", "file", "line", "reason", "smiles"])
    for name, piece in pieces.items():
        rows = source.splits[name]
        for row, reason in sorted(piece.refused):
            writer.writerow([name, rows.file, int(rows.lines[row]), str(reason), rows.smiles[row]])
    return stream.getvalue()
