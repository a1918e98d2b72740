"""Molecules as a compact file.

In memory, atoms and bonds of all molecules lie one after another. In the file, a bond is told by the atom it
ends at and by how many places before that one it begins: where atoms are numbered along the molecule, as in
SMILES, most atoms have one earlier neighbour, the one just before them, which compresses well.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catnf.errors import InputError, StorageError
from catnf.storage import write_bytes
from catnf.tasks.files import UNREADABLE
from catnf.tasks.molecules.vocabulary import BONDS, MolecularGraph, Vocabulary

FORMAT_VERSION = 1
PADDING = 255
"""Stands where a molecule has no atom."""

_DATE = (1980, 1, 1, 0, 0, 0)  # of every part of a file, so that the same molecules give the same bytes


@dataclass(frozen=True)
class MoleculeArchive:
    """Many molecules.

    Attributes:
        sizes: atoms of every molecule, `[molecules]`.
        atoms: categories of the atoms of all molecules, one after another.
        bond_counts: bonds of every molecule, `[molecules]`.
        bonds: rows `(i, j, order)` with `i < j` of all molecules, one after another, those of a molecule
            sorted by `j`, then `i`: `[bonds, 3]`.
        valid: whether a molecule is valid as its categories tell it, without charges where the vocabulary has
            none: `[molecules]`.
    """

    sizes: NDArray[np.uint8]
    atoms: NDArray[np.uint8]
    bond_counts: NDArray[np.uint16]
    bonds: NDArray[np.uint8]
    valid: NDArray[np.bool_]

    @classmethod
    def pack(
        cls, graphs: Sequence[MolecularGraph], valid: Sequence[bool] | NDArray[np.bool_] | None = None
    ) -> MoleculeArchive:
        """Put molecules into an archive, by default as valid ones."""
        sizes = np.array([len(graph.atoms) for graph in graphs], dtype=np.int64)
        counts = np.array([len(graph.bonds) for graph in graphs], dtype=np.int64)
        bonds = np.concatenate([np.zeros((0, 3), np.int64), *(graph.bonds for graph in graphs)])
        owner = np.repeat(np.arange(len(graphs)), counts)
        order = np.lexsort((bonds[:, 0], bonds[:, 1], owner))
        bonds, owner = bonds[order], owner[order]
        _check(sizes, bonds, owner)
        return cls(
            sizes.astype(np.uint8),
            np.concatenate([np.zeros(0, np.uint8), *(graph.atoms for graph in graphs)]).astype(np.uint8),
            counts.astype(np.uint16),
            bonds.astype(np.uint8),
            np.ones(len(graphs), dtype=bool) if valid is None else np.array(valid, dtype=bool),
        )

    @classmethod
    def join(cls, parts: Sequence[MoleculeArchive]) -> MoleculeArchive:
        """One archive of the molecules of several."""
        parts = [cls.pack([]), *parts]
        return cls(
            np.concatenate([part.sizes for part in parts]),
            np.concatenate([part.atoms for part in parts]),
            np.concatenate([part.bond_counts for part in parts]),
            np.concatenate([part.bonds for part in parts]),
            np.concatenate([part.valid for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def most_bonds(self) -> int:
        """Of an atom, to however many electrons."""
        starts = np.cumsum(self.sizes, dtype=np.int64) - self.sizes
        ends = self.bonds[:, :2] + np.repeat(starts, self.bond_counts)[:, None]
        return int(np.bincount(ends.ravel()).max(initial=0))

    def __iter__(self) -> Iterator[MolecularGraph]:
        atom = bond = 0
        for size, count in zip(self.sizes.tolist(), self.bond_counts.tolist(), strict=True):
            yield MolecularGraph(self.atoms[atom : atom + size], self.bonds[bond : bond + count])
            atom, bond = atom + size, bond + count

    def select(self, start: int, stop: int) -> MoleculeArchive:
        """The molecules from `start` to before `stop`."""
        first, count, _ = slice(start, stop).indices(len(self))
        count = max(count - first, 0)
        atom = int(self.sizes[:first].sum(dtype=np.int64))
        bond = int(self.bond_counts[:first].sum(dtype=np.int64))
        sizes, bond_counts = self.sizes[first : first + count], self.bond_counts[first : first + count]
        return MoleculeArchive(
            sizes,
            self.atoms[atom : atom + int(sizes.sum(dtype=np.int64))],
            bond_counts,
            self.bonds[bond : bond + int(bond_counts.sum(dtype=np.int64))],
            self.valid[first : first + count],
        )

    def take(self, indices: NDArray[np.integer[Any]] | Sequence[int]) -> MoleculeArchive:
        """The molecules of the given numbers, in their order."""
        chosen = np.asarray(indices, dtype=np.int64)
        return MoleculeArchive(
            self.sizes[chosen],
            self.atoms[_ranges(self.sizes, chosen)],
            self.bond_counts[chosen],
            self.bonds[_ranges(self.bond_counts, chosen)],
            self.valid[chosen],
        )

    @property
    def largest(self) -> tuple[int, int]:
        """The most atoms, and the most bonds, that a molecule has."""
        return int(self.sizes.max(initial=0)), int(self.bond_counts.max(initial=0))

    def padded(
        self, nodes: int, bonds: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]]:
        """All molecules as arrays of one shape.

        Args:
            nodes: atoms that molecules are padded to.
            bonds: bonds that they are padded to.

        Returns:
            Categories of atoms `[molecules, nodes]`, 255 at padding; ends `i < j` of bonds
            `[molecules, bonds, 2]` and their orders `[molecules, bonds]`, both 0 at padding.
        """
        most = self.largest
        if nodes < most[0] or bonds < most[1]:
            raise InputError(
                f"The largest molecules have {most[0]} atoms and {most[1]} bonds; pad to those or more, "
                f"not to {nodes} and {bonds}."
            )
        atoms = np.full((len(self), nodes), PADDING, dtype=np.uint8)
        atoms[np.arange(nodes) < self.sizes[:, None]] = self.atoms
        rows = np.zeros((len(self), bonds, 3), dtype=np.uint8)
        rows[np.arange(bonds) < self.bond_counts[:, None]] = self.bonds
        return atoms, rows[..., :2].copy(), rows[..., 2].copy()


@dataclass(frozen=True)
class MoleculeData:
    """A data set of molecules: what a file holds.

    Attributes:
        vocabulary: the categories of atoms.
        splits: molecules by the names of their splits.
        about: where they come from, as JSON.
    """

    vocabulary: Vocabulary
    splits: Mapping[str, MoleculeArchive]
    about: Mapping[str, Any]

    def fingerprint(self) -> str:
        """SHA-256 of vocabulary and molecules, whatever the compression of their file."""
        digest = hashlib.sha256(" ".join(self.vocabulary.atoms).encode())
        for name in sorted(self.splits):
            split = self.splits[name]
            for part in (split.sizes, split.atoms, split.bond_counts.astype("<u2"), split.bonds, split.valid):
                digest.update(f" {name} {len(part)} ".encode())
                digest.update(np.ascontiguousarray(part).data)
        return digest.hexdigest()

    def save(self, path: Path) -> None:
        """Write the data set, all or nothing, as an `.npz` file that `numpy.load` reads too."""
        header = {"format": FORMAT_VERSION, "atoms": self.vocabulary.atoms, "about": dict(self.about)}
        header["counts"] = {name: len(split) for name, split in self.splits.items()}
        arrays = {"header": np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)}
        for name, split in self.splits.items():
            arrays |= {f"{name}/{part}": array for part, array in _columns(split).items()}
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as file:
            for name, array in arrays.items():
                info = zipfile.ZipInfo(f"{name}.npy", _DATE)
                info.compress_type = zipfile.ZIP_LZMA
                with file.open(info, "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        write_bytes(path, stream.getvalue())

    @classmethod
    def load(cls, path: Path, names: Collection[str] | None = None) -> MoleculeData:
        """Read what `save` wrote: all splits, or those of the given names."""
        try:
            with np.load(path, allow_pickle=False) as stored:
                header = json.loads(stored["header"].tobytes())
                if header["format"] > FORMAT_VERSION:
                    raise StorageError(f"{path} was written by a newer catnf; upgrade catnf to read it.")
                counts = dict(header["counts"])
                vocabulary = Vocabulary(tuple(header["atoms"]))
                wanted = counts if names is None else names
                missing = [name for name in wanted if name not in counts]
                if missing:
                    raise StorageError(f"{path} has no {missing[0]} split; it has {', '.join(counts)}.")
                splits = {
                    name: _from_columns({part: stored[f"{name}/{part}"] for part in _PARTS}, len(vocabulary))
                    for name in wanted
                }
                about = dict(header["about"])
        except FileNotFoundError as error:
            raise StorageError(f"There is no file {path}; make it with catnf data molecules.") from error
        except UNREADABLE as error:
            if isinstance(error, StorageError):
                raise
            raise StorageError(f"{path} cannot be read as molecules; make it again.") from error
        return cls(vocabulary, splits, about)


_PARTS = {"sizes": "u1", "atoms": "u1", "earlier": "u1", "steps": "u1", "orders": "u1", "valid": "u1"}
"""Columns of a split in a file, with their types."""


def _columns(archive: MoleculeArchive) -> dict[str, NDArray[np.uint8]]:
    """`earlier` counts the bonds of every atom to atoms before it, `steps` tells how far before."""
    first = np.cumsum(archive.sizes, dtype=np.int64) - archive.sizes
    one, two, orders = archive.bonds.T
    ends = np.repeat(first, archive.bond_counts) + two
    return {
        "sizes": archive.sizes,
        "atoms": archive.atoms,
        "earlier": np.bincount(ends, minlength=len(archive.atoms)).astype(np.uint8),
        "steps": two - one,
        "orders": np.ascontiguousarray(orders),
        "valid": np.packbits(archive.valid),
    }


def _from_columns(columns: dict[str, NDArray[np.uint8]], categories: int) -> MoleculeArchive:
    """The archive of some columns; `ValueError` where they cannot belong together."""
    sizes, atoms, earlier, steps, orders, valid = (columns[part] for part in _PARTS)
    if any(columns[part].dtype != kind or columns[part].ndim != 1 for part, kind in _PARTS.items()):
        raise ValueError("types")
    first = np.cumsum(sizes, dtype=np.int64) - sizes
    if (sizes == 0).any() or not len(atoms) == len(earlier) == int(sizes.sum(dtype=np.int64)):
        raise ValueError("atoms")
    if not len(steps) == len(orders) == int(earlier.sum(dtype=np.int64)) or len(valid) != -(-len(sizes) // 8):
        raise ValueError("bonds")
    places = (np.arange(len(atoms)) - np.repeat(first, sizes)).astype(np.uint8)
    two = np.repeat(places, earlier)
    if (atoms >= categories).any() or (steps < 1).any() or (steps > two).any():
        raise ValueError("ends")
    if (orders < 1).any() or (orders >= len(BONDS)).any():
        raise ValueError("orders")
    counts = np.add.reduceat(earlier, first, dtype=np.int64) if len(sizes) else np.zeros(0, np.int64)
    return MoleculeArchive(
        sizes,
        atoms,
        counts.astype(np.uint16),
        np.stack([two - steps, two, orders], axis=1),
        np.unpackbits(valid, count=len(sizes)).astype(bool),
    )


def _ranges(counts: NDArray[np.integer[Any]], chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the items of the chosen owners lie, if every owner has `counts` items, one after another."""
    first = (np.cumsum(counts, dtype=np.int64) - counts)[chosen]
    lengths = counts[chosen].astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    return np.repeat(first - starts, lengths) + np.arange(int(lengths.sum()))


def _check(sizes: NDArray[np.int64], bonds: NDArray[np.int64], owner: NDArray[np.int64]) -> None:
    """Raise `InputError` where sorted bonds `[bonds, 3]` of the owning molecules cannot be."""
    for size in sizes[(sizes < 1) | (sizes > PADDING)]:
        raise InputError(f"A molecule has {size} atoms; an archive holds those of 1 to {PADDING}.")
    one, two, order = bonds.T
    if (one < 0).any() or (one >= two).any() or (two >= sizes[owner]).any():
        raise InputError(
            "A bond does not join two atoms of its molecule; give rows (i, j, order) with i < j."
        )
    if (order < 1).any() or (order >= len(BONDS)).any():
        raise InputError(f"A bond has another order than 1 to {len(BONDS) - 1}; give kekulized molecules.")
    keys = (owner * (PADDING + 1) + two) * (PADDING + 1) + one
    if (np.diff(keys) == 0).any():
        raise InputError("Two bonds of a molecule join the same atoms; give each pair of atoms once.")
