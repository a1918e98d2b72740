"""The training molecules of a file, to tell which samples are new.

RDKit reads some thousands of molecules a second, so that a million of them take minutes: their hashes are
kept beside the file, or in the user's cache where nothing can be written there.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from catnf.errors import StorageError
from catnf.storage import write_bytes
from catnf.tasks.files import cache_folder
from catnf.tasks.molecules.archive import UNREADABLE, MoleculeArchive, MoleculeData
from catnf.tasks.molecules.metrics import hash_smiles, valid_smiles
from catnf.tasks.molecules.parallel import map_chunks
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
    key = _key(archive, vocabulary)
    name = f"{path.stem}.known.npz"
    places = [path.with_name(name), cache_folder() / "molecules" / name]
    for place in places:
        found = _stored(place, key)
        if found is not None:
            return found
    starts = range(0, len(archive), _AT_ONCE)
    pieces = [archive.select(start, start + _AT_ONCE) for start in starts]
    done = 0

    def tell(count: int) -> None:
        nonlocal done
        done += count
        progress(min(done * _AT_ONCE, len(archive)), len(archive))

    parts = map_chunks(partial(_hashes, vocabulary=vocabulary), pieces, workers, 1, tell)
    hashes = np.unique(np.concatenate([np.zeros(0, np.uint64), *parts]))
    _store(places, key, hashes)
    return hashes


def _hashes(pieces: Sequence[MoleculeArchive], vocabulary: Vocabulary) -> list[NDArray[np.uint64]]:
    return [hash_smiles(valid_smiles(list(piece), vocabulary)) for piece in pieces]


def _key(archive: MoleculeArchive, vocabulary: Vocabulary) -> str:
    """Tells the molecules and the RDKit that writes their SMILES; another version may write others."""
    try:
        rdkit = version("rdkit")
    except PackageNotFoundError:
        rdkit = "unknown"
    return json.dumps([MoleculeData(vocabulary, {"train": archive}, {}).fingerprint(), rdkit])


def _stored(place: Path, key: str) -> NDArray[np.uint64] | None:
    try:
        with np.load(place, allow_pickle=False) as stored:
            same = stored["key"].tobytes().decode() == key
            return stored["hashes"].astype(np.uint64) if same else None
    except UNREADABLE:
        return None


def _store(places: Sequence[Path], key: str, hashes: NDArray[np.uint64]) -> None:
    """Write to the first place that allows it; where none does, the next evaluation reads them again."""
    stream = io.BytesIO()
    np.savez(stream, key=np.frombuffer(key.encode(), dtype=np.uint8), hashes=hashes)
    for place in places:
        with suppress(StorageError):
            write_bytes(place, stream.getvalue())
            return
