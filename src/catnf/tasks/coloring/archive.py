"""Graphs with colorings as a compact file.

Of every graph the file holds the number of nodes, one bit for every pair of nodes and one byte for every
color, one graph after another without gaps, compressed.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from catnf.errors import StorageError
from catnf.storage import write_bytes
from catnf.tasks.coloring.graphs import Adjacency, Coloring
from catnf.tasks.files import UNREADABLE

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Archive:
    """Many colored graphs.

    Attributes:
        sizes: nodes of every graph, `[graphs]`.
        edges: the pairs (0, 1), (0, 2), ... (1, 2), ... of all graphs, one after another, eight in a byte.
        colors: of all nodes of all graphs, one after another.
    """

    sizes: NDArray[np.uint8]
    edges: NDArray[np.uint8]
    colors: NDArray[np.uint8]

    @classmethod
    def pack(cls, examples: Sequence[Coloring]) -> Archive:
        """Put graphs into an archive."""
        sizes = np.array([len(example.colors) for example in examples], dtype=np.uint8)
        pairs = [example.adjacency[np.triu_indices(len(example.colors), 1)] for example in examples]
        return cls(
            sizes, np.packbits(_joined(pairs, np.bool_)), _joined([e.colors for e in examples], np.uint8)
        )

    @classmethod
    def join(cls, parts: Sequence[Archive]) -> Archive:
        """One archive of the graphs of several."""
        bits = [np.unpackbits(part.edges, count=part.pair_count) for part in parts]
        return cls(
            _joined([part.sizes for part in parts], np.uint8),
            np.packbits(_joined(bits, np.uint8)),
            _joined([part.colors for part in parts], np.uint8),
        )

    @property
    def pair_count(self) -> int:
        """Pairs of nodes, of all graphs together."""
        return int(pairs_of(self.sizes).sum())

    def __len__(self) -> int:
        return len(self.sizes)

    def check(self, where: Path) -> None:
        """Raise `StorageError` where the arrays cannot belong together."""
        colors, edges = int(self.sizes.sum(dtype=np.int64)), -(-self.pair_count // 8)
        if len(self.colors) != colors or len(self.edges) != edges:
            raise StorageError(f"{where} is damaged: its graphs and colors do not fit; make it again.")

    def dense(self, nodes: int | None = None) -> tuple[Adjacency, NDArray[np.int64]]:
        """Adjacency `[graphs, nodes, nodes]` and colors `[graphs, nodes]`, -1 where a graph has no node.

        Graphs are padded to `nodes`, by default the size of the largest.
        """
        nodes = nodes or int(self.sizes.max(initial=1))
        adjacency = np.zeros((len(self), nodes, nodes), dtype=bool)
        colors = np.full((len(self), nodes), -1, dtype=np.int64)
        bits = np.unpackbits(self.edges, count=self.pair_count).astype(bool)
        counts = pairs_of(self.sizes)
        first_pair = np.cumsum(counts) - counts
        first_node = np.cumsum(self.sizes, dtype=np.int64) - self.sizes
        for size in np.unique(self.sizes):  # all graphs of one size at once
            chosen = np.flatnonzero(self.sizes == size)
            row, column = np.triu_indices(int(size), 1)
            pairs = bits[first_pair[chosen, None] + np.arange(len(row))]
            adjacency[chosen[:, None], row, column] = pairs
            adjacency[chosen[:, None], column, row] = pairs
            colors[chosen, :size] = self.colors[first_node[chosen, None] + np.arange(size)]
        return adjacency, colors

    def select(self, start: int, stop: int) -> Archive:
        """The graphs from `start` to before `stop`."""
        counts = pairs_of(self.sizes)
        ends, nodes = np.cumsum(counts), np.cumsum(self.sizes, dtype=np.int64)
        first, last = (int(ends[start - 1]) if start else 0), (int(ends[stop - 1]) if stop else 0)
        bits = np.unpackbits(self.edges, count=self.pair_count)[first:last]
        low, high = (int(nodes[start - 1]) if start else 0), (int(nodes[stop - 1]) if stop else 0)
        return Archive(self.sizes[start:stop], np.packbits(bits), self.colors[low:high])


def pairs_of(sizes: NDArray[np.uint8]) -> NDArray[np.int64]:
    """How many pairs of nodes graphs of the given sizes have."""
    wide = sizes.astype(np.int64)
    return wide * (wide - 1) // 2


def fingerprint(splits: Mapping[str, Archive]) -> str:
    """SHA-256 of the graphs and colors, whatever the compression of their file."""
    digest = hashlib.sha256()
    for name in sorted(splits):
        for part in (splits[name].sizes, splits[name].edges, splits[name].colors):
            digest.update(f"{name} {len(part)} ".encode())
            digest.update(part.tobytes())
    return digest.hexdigest()


def save_archives(path: Path, splits: Mapping[str, Archive], header: Mapping[str, object]) -> None:
    """Write archives by the names of their splits, all or nothing."""
    text = json.dumps({"format": FORMAT_VERSION, **header})
    arrays = {"header": np.frombuffer(text.encode(), dtype=np.uint8)}
    for name, archive in splits.items():
        arrays |= {
            f"{name}_sizes": archive.sizes,
            f"{name}_edges": archive.edges,
            f"{name}_colors": archive.colors,
        }
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, **arrays)
    write_bytes(path, stream.getvalue())


def load_archives(path: Path) -> tuple[dict[str, Archive], dict[str, object]]:
    """Read what `save_archives` wrote: the splits and the header."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            header = json.loads(stored["header"].tobytes())
            arrays = {name: stored[name] for name in stored.files if name != "header"}
        if header["format"] > FORMAT_VERSION:
            raise StorageError(f"{path} was written by a newer catnf; upgrade catnf to read it.")
        names = [name.removesuffix("_sizes") for name in arrays if name.endswith("_sizes")]
        splits = {
            name: Archive(arrays[f"{name}_sizes"], arrays[f"{name}_edges"], arrays[f"{name}_colors"])
            for name in names
        }
    except UNREADABLE as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"{path} cannot be read as colored graphs; make it again.") from error
    for archive in splits.values():
        archive.check(path)
    return splits, header


def _joined(parts: Sequence[NDArray[np.generic]], dtype: type[np.generic]) -> NDArray[np.uint8]:
    return np.concatenate([np.zeros(0, dtype), *parts]).astype(dtype)
