"""The training molecules of a file, to tell which samples are new."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from catnf.processes import map_chunks
from catnf.tasks.molecules.archive import MoleculeArchive, MoleculeData
from catnf.tasks.molecules.kept import Arrays, kept, package_version
from catnf.tasks.molecules.metrics import hash_smiles, valid_smiles
from catnf.tasks.molecules.vocabulary import Vocabulary

_AT_ONCE = 2000  # molecules of a piece


def known_hashes(
    path: Path,
    archive: MoleculeArchive,
    vocabulary: Vocabulary,
    progress: Callable[[int, int], None] = lambda done, total: None,
    workers: int = 1,
) -> NDArray[np.uint64]:
    """Sorted hashes of the training molecules' canonical SMILES, made when first asked for.

    Args:
        path: the file that the molecules are from.
        archive: the molecules.
        vocabulary: their categories of atoms.
        progress: called with how many molecules are read, of how many.
        workers: processes.
    """
    starts = range(0, len(archive), _AT_ONCE)
    done = 0

    def tell(count: int) -> None:
        nonlocal done
        done += count
        progress(min(done * _AT_ONCE, len(archive)), len(archive))

    def make() -> Arrays:
        pieces = [archive.select(start, start + _AT_ONCE) for start in starts]
        parts = map_chunks(partial(_hashes, vocabulary=vocabulary), pieces, workers, 1, tell)
        return {"hashes": np.unique(np.concatenate([np.zeros(0, np.uint64), *parts]))}

    fingerprint = MoleculeData(vocabulary, {"train": archive}, {}).fingerprint()
    return kept(path, "known", [fingerprint, package_version("rdkit")], make)["hashes"]


def _hashes(pieces: Sequence[MoleculeArchive], vocabulary: Vocabulary) -> list[NDArray[np.uint64]]:
    return [hash_smiles(valid_smiles(list(piece), vocabulary)) for piece in pieces]
