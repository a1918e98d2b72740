"""Validity, uniqueness and novelty of sampled graphs, each by a named protocol.

Figures of different protocols must not be compared: the GDSS protocol calls nearly everything valid that has
no pentavalent carbon, the paper's wants one connected molecule as drawn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from catnf.processes import map_chunks
from catnf.tasks.molecules.chemistry import gdss_smiles, gdss_valid, largest_fragment, strict_smiles
from catnf.tasks.molecules.vocabulary import MolecularGraph, Vocabulary
from catnf.tasks.task import Measurement

Known = Collection[str] | NDArray[np.uint64]
"""Training molecules: canonical SMILES, or their sorted hashes as `hash_smiles` gives them.

They must have gone through the encoding, as `valid_smiles` gives them: beside SMILES with stereo marks,
which no sample has, nearly all samples would be new.
"""

PROTOCOLS = {
    "validity": "strict: RDKit sanitizes the graph as it is and it is connected; of all samples",
    "validity_largest": "strict, of the largest connected part of every sample; of all samples",
    "uniqueness": "distinct canonical SMILES; of the strictly valid samples",
    "uniqueness_largest": "distinct canonical SMILES; of the samples whose largest part is valid",
    "novelty": "canonical SMILES is not among the training molecules'; of the strictly valid samples, "
    "repeated ones counted",
    "novelty_largest": "canonical SMILES is not among the training molecules'; of the samples whose largest "
    "part is valid, repeated ones counted",
    "validity_gdss": "GDSS: valences only, N, O and S may take a charge +1, parts allowed; of all samples",
}
"""What every metric counts, and of what."""


@dataclass(frozen=True)
class Reading:
    """What the protocols make of one graph.

    Attributes:
        strict: canonical SMILES of the graph if it is strictly valid.
        largest: canonical SMILES of its largest connected part if that is strictly valid.
        gdss: whether it is valid in the GDSS protocol.
        corrected: canonical SMILES of what the GDSS protocol's correction makes of it.
    """

    strict: str | None
    largest: str | None
    gdss: bool
    corrected: str | None


def read_graphs(
    graphs: Sequence[MolecularGraph],
    vocabulary: Vocabulary,
    workers: int = 1,
    progress: Callable[[int], None] = lambda count: None,
) -> list[Reading]:
    """A reading of every graph, in order; `progress` is told how many more are read."""
    return map_chunks(partial(_read, vocabulary=vocabulary), graphs, workers, progress=progress)


def _read(graphs: Sequence[MolecularGraph], vocabulary: Vocabulary) -> list[Reading]:
    readings = []
    for graph in graphs:
        smiles = strict_smiles(graph, vocabulary)
        if smiles is not None:  # which the other protocols accept too
            readings.append(Reading(smiles, smiles, True, smiles))
            continue
        largest = largest_fragment(graph)
        # A graph in one piece that is not valid has no part to look at again.
        whole = len(largest.atoms) == len(graph.atoms)
        readings.append(
            Reading(
                None,
                None if whole else strict_smiles(largest, vocabulary),
                gdss_valid(graph, vocabulary),
                gdss_smiles(graph, vocabulary),
            )
        )
    return readings


def sample_metrics(readings: Sequence[Reading], known: Known | None = None) -> dict[str, Measurement]:
    """All shares of `PROTOCOLS` that the readings allow: novelty only where training molecules are given.

    Shares of no molecules at all, such as the uniqueness of none that is valid, are left out.
    """
    strict = [reading.strict for reading in readings if reading.strict is not None]
    largest = [reading.largest for reading in readings if reading.largest is not None]
    counts = {
        "validity": (len(strict), len(readings)),
        "validity_largest": (len(largest), len(readings)),
        "validity_gdss": (sum(reading.gdss for reading in readings), len(readings)),
        "uniqueness": (len(set(strict)), len(strict)),
        "uniqueness_largest": (len(set(largest)), len(largest)),
    }
    if known is not None:
        counts["novelty"] = (count_new(strict, known), len(strict))
        counts["novelty_largest"] = (count_new(largest, known), len(largest))
    return {name: Measurement(some / n, n, PROTOCOLS[name]) for name, (some, n) in counts.items() if n}


def valid_smiles(
    graphs: Sequence[MolecularGraph],
    vocabulary: Vocabulary,
    workers: int = 1,
    progress: Callable[[int], None] = lambda count: None,
) -> list[str]:
    """Canonical SMILES of the strictly valid graphs.

    Of data, this is the reference that went through the same encoding as samples: with a neutral vocabulary
    the neutralised one, without charges and stereo marks.
    """
    found = map_chunks(partial(_strict, vocabulary=vocabulary), graphs, workers, progress=progress)
    return [smiles for smiles in found if smiles is not None]


def _strict(graphs: Sequence[MolecularGraph], vocabulary: Vocabulary) -> list[str | None]:
    return [strict_smiles(graph, vocabulary) for graph in graphs]


def hash_smiles(smiles: Iterable[str]) -> NDArray[np.uint64]:
    """Sorted hashes of SMILES, 8 bytes each: 13 MB for the 1.6 million training molecules of MOSES.

    Among so many a molecule that is not there is taken for known with a chance of one in ten trillion.
    """
    return np.unique(_hashes(smiles))


def count_new(smiles: Sequence[str], known: Known) -> int:
    """How many SMILES are not among the known ones."""
    if not isinstance(known, np.ndarray):
        some = known if isinstance(known, (set, frozenset)) else frozenset(known)
        return sum(text not in some for text in smiles)
    hashes = _hashes(smiles)
    place = np.searchsorted(known, hashes)
    found = np.zeros(len(hashes), dtype=bool)
    inside = place < len(known)
    found[inside] = known[place[inside]] == hashes[inside]
    return int((~found).sum())


def _hashes(smiles: Iterable[str]) -> NDArray[np.uint64]:
    digests = b"".join(hashlib.blake2b(text.encode(), digest_size=8).digest() for text in smiles)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)
