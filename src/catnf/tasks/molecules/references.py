"""Held-out molecules that samples are compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from catnf.errors import StorageError
from catnf.tasks.files import find_data
from catnf.tasks.molecules.archive import MoleculeArchive, MoleculeData
from catnf.tasks.molecules.distributions import Profile
from catnf.tasks.molecules.fcd import ChemNet, ChemNetStatistics
from catnf.tasks.molecules.kept import Arrays, kept, package_version
from catnf.tasks.molecules.metrics import valid_smiles
from catnf.tasks.molecules.similarity import Structures
from catnf.tasks.molecules.sources import dataset_path, lines_digest, zinc250k
from catnf.tasks.molecules.vocabulary import Vocabulary
from catnf.tasks.task import Measuring

if TYPE_CHECKING:
    from catnf.tasks.molecules.data import Molecules

SCAFFOLDS = "test_scaffolds"
"""The split of MOSES whose scaffolds do not occur in training."""

_PUBLISHED = "moses/moses_fcd_stats.npz"  # the statistics that MOSES publishes, in a data folder
_DEFINITIONS = "1"  # raised where other things are kept


@dataclass(frozen=True, eq=False)
class Reference:
    """Some held-out molecules, as the encoding leaves them: those only that are valid after it.

    What takes long is kept beside their file.

    Attributes:
        path: their file.
        splits: those of the file that they are of.
        archive: the molecules.
        vocabulary: their categories of atoms.
        how: where to compute, and whom to tell.
    """

    path: Path
    splits: tuple[str, ...]
    archive: MoleculeArchive
    vocabulary: Vocabulary
    how: Measuring

    @classmethod
    def of(cls, task: Molecules, splits: tuple[str, ...], how: Measuring) -> Reference:
        """The valid molecules of some splits, or `StorageError` where there are none."""
        path = dataset_path(task.source, task.kind)
        whole = MoleculeArchive.join([task.archive(split) for split in splits])
        archive = whole.take(np.flatnonzero(whole.valid))
        if len(archive) < 2:  # which a covariance needs
            raise StorageError(f"{path} has fewer than two valid molecules in {' and '.join(splits)}.")
        return cls(path, splits, archive, task.vocabulary, how)

    def __len__(self) -> int:
        return len(self.archive)

    @property
    def name(self) -> str:
        """Of the splits."""
        return " and ".join(self.splits)

    @cached_property
    def smiles(self) -> list[str]:
        """Canonical SMILES."""
        tell = self.how.stage(f"Reading {self.name} molecules, once", len(self))
        return valid_smiles(list(self.archive), self.vocabulary, self.how.workers, tell)

    @cached_property
    def structures(self) -> Structures:
        """Their fingerprints, scaffolds and fragments."""

        def make() -> Arrays:
            tell = self.how.stage(f"Taking {self.name} molecules apart, once", len(self.smiles))
            return Structures.of(self.smiles, self.how.workers, tell).arrays()

        return Structures.from_arrays(self._kept("structures", make))

    @cached_property
    def profile(self) -> Profile:
        """Their distributions."""

        def make() -> Arrays:
            tell = self.how.stage(f"Describing {self.name} molecules, once", len(self.smiles))
            return Profile.of(self.smiles, self.how.workers, tell).arrays()

        return Profile.from_arrays(self._kept("profile", make))

    def statistics(self, network: ChemNet) -> ChemNetStatistics:
        """Of their ChemNet features."""
        stage = f"Looking at {self.name} molecules, once"
        arrays = self._kept("chemnet", lambda: _look(network, self.smiles, stage, self.how), "fcd_torch")
        return ChemNetStatistics.from_arrays(arrays)

    def original(self, network: ChemNet) -> ChemNetStatistics:
        """Of the published SMILES of these splits of Zinc250k, valid after the encoding or not."""
        source = zinc250k(self.how.progress)
        smiles = [text for split in self.splits for text in source.splits[split].smiles]
        key = [lines_digest(smiles), *map(package_version, ("rdkit", "fcd_torch")), _DEFINITIONS]
        stage = f"Looking at original {self.name} molecules, once"
        name = f"{'-'.join(self.splits)}-original-chemnet"
        return ChemNetStatistics.from_arrays(
            kept(self.path, name, key, lambda: _look(network, smiles, stage, self.how))
        )

    @cached_property
    def _fingerprint(self) -> str:
        return MoleculeData(self.vocabulary, {"reference": self.archive}, {}).fingerprint()

    def _kept(self, what: str, make: Callable[[], Arrays], *packages: str) -> Arrays:
        key = [self._fingerprint, *map(package_version, ("rdkit", *packages)), _DEFINITIONS]
        return kept(self.path, f"{'-'.join(self.splits)}-{what}", key, make)


def held_out(task: Molecules, how: Measuring) -> Reference:
    """The molecules of the split that is asked for.

    The field tests on all held-out molecules of Zinc250k; the paper validates on the first of them.
    """
    both = task.source == "zinc250k" and how.split == "test"
    return Reference.of(task, ("validation", "test") if both else (how.split,), how)


def new_scaffolds(task: Molecules, how: Measuring) -> Reference | None:
    """The second test set of MOSES, where that is tested on and the file has it."""
    if task.source != "moses" or how.split != "test":
        return None
    try:
        return Reference.of(task, (SCAFFOLDS,), how)
    except StorageError:
        return None


def published_file(reference: Reference) -> Path | None:
    """Where a data folder has the statistics that MOSES publishes of its test sets."""
    return None if reference.splits == ("validation",) else find_data(_PUBLISHED)


def _look(network: ChemNet, smiles: list[str], stage: str, how: Measuring) -> Arrays:
    """The arrays of the statistics of SMILES."""
    total = len(smiles)
    return network.statistics(smiles, progress=lambda done: how.progress(stage, done, total)).arrays()
