"""Fréchet ChemNet distance: how far samples are from data in the features of a network of bioactivities.

A figure depends on its reference. Two are in use for Zinc250k: the held-out SMILES as published ("original",
with charges and stereo marks, which a neutral encoding cannot have), and the same molecules after they went
through the encoding ("neutralised", see `metrics.valid_smiles`). MOSES publishes statistics of its test sets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from catnf.errors import InputError, MissingDependencyError, StorageError
from catnf.tasks.files import UNREADABLE
from catnf.tasks.molecules.chemistry import quiet, rdkit, read_smiles

FEATURES = 512
_LENGTH = 350  # symbols of a SMILES that ChemNet reads
_WEIGHTS = "ChemNet_v0.13_pretrained.pt"  # the file in fcd_torch

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ChemNetStatistics:
    """Mean `[512]` and covariance `[512, 512]` of the features of `n` molecules, 0 where unknown."""

    mean: Array
    covariance: Array
    n: int = 0

    @classmethod
    def of(cls, features: NDArray[np.floating[Any]]) -> ChemNetStatistics:
        """Statistics of features `[molecules, 512]`."""
        if len(features) < 2:
            raise InputError(f"{len(features)} molecules have no covariance; give at least 2, better 10,000.")
        values = features.astype(np.float64)
        return cls(values.mean(0), np.cov(values, rowvar=False), len(values))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """`mu`, `sigma_tril` (the lower triangle, row by row) and `n`: what a file holds."""
        lower = self.covariance[np.tril_indices(FEATURES)]
        return {"mu": self.mean, "sigma_tril": lower, "n": np.array(self.n)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], name: str = "") -> ChemNetStatistics:
        """Statistics of `arrays`, or those called `name` among several; `ValueError` for other shapes."""
        prefix = f"{name}_" if name else ""
        mean, lower = arrays[f"{prefix}mu"], arrays[f"{prefix}sigma_tril"]
        rows, columns = np.tril_indices(FEATURES)
        if mean.shape != (FEATURES,) or lower.shape != rows.shape:
            raise ValueError(f"statistics of {mean.shape} features")
        covariance = np.zeros((FEATURES, FEATURES))
        covariance[rows, columns] = lower
        covariance[columns, rows] = lower
        n = int(arrays[f"{prefix}n"]) if f"{prefix}n" in arrays else 0
        return cls(mean.astype(np.float64), covariance, n)

    @classmethod
    def load(cls, path: Path, name: str = "") -> ChemNetStatistics:
        """Statistics from an `.npz` file of `arrays`, or those called `name` of a file with several.

        The file of MOSES holds `test` and `test_scaffolds`, as `test_mu` and `test_sigma_tril`.
        """
        try:
            with np.load(path, allow_pickle=False) as arrays:
                return cls.from_arrays(arrays, name)
        except OSError as error:
            raise StorageError(
                f"{path} cannot be read: {error}; give a file of ChemNet statistics."
            ) from error
        except UNREADABLE as error:
            prefix = f"{name}_" if name else ""
            raise StorageError(
                f"{path} does not hold ChemNet statistics {prefix}mu and {prefix}sigma_tril of {FEATURES} "
                "features; make them again."
            ) from error


class ChemNet:
    """The network that comes with the package `fcd_torch`, on a device."""

    def __init__(self, device: torch.device | str = "cpu") -> None:
        try:
            import fcd_torch
            from fcd_torch import utils
        except ImportError as error:
            raise MissingDependencyError(
                "The Fréchet ChemNet distance needs fcd_torch; install it with pip install 'catnf[chem]'."
            ) from error
        self.device = torch.device(device)
        self._symbols: Callable[[str, int], Array] = utils.get_one_hot
        # Tensors and plain values only: nothing is unpickled that could run code.
        layers = torch.load(Path(fcd_torch.__file__).parent / _WEIGHTS, weights_only=True)
        self._network = utils.load_imported_model(layers).eval().to(self.device)

    @torch.no_grad()
    def features(
        self, smiles: Sequence[str], batch: int = 512, progress: Callable[[int], None] | None = None
    ) -> NDArray[np.float32]:
        """Features `[molecules, 512]` of SMILES, which are made canonical first.

        `progress` is told after every batch how many molecules are done: ten thousand take minutes on a CPU.
        """
        Chem = rdkit()
        parts = [np.zeros((0, FEATURES), dtype=np.float32)]
        for start in range(0, len(smiles), batch):
            mols = read_smiles(smiles[start : start + batch])
            with quiet():
                texts = [Chem.MolToSmiles(mol) for mol in mols]
            symbols = np.stack([self._symbols(text, _LENGTH) for text in texts]).astype(np.float32)
            # The published network was trained on one-hot vectors divided by the number of symbols.
            x = torch.from_numpy(symbols / symbols.shape[2]).transpose(1, 2).to(self.device)
            parts.append(self._network(x).cpu().numpy())
            if progress is not None:
                progress(start + len(mols))
        return np.concatenate(parts)

    def statistics(
        self, smiles: Sequence[str], batch: int = 512, progress: Callable[[int], None] | None = None
    ) -> ChemNetStatistics:
        """Statistics of the features of SMILES."""
        return ChemNetStatistics.of(self.features(smiles, batch, progress))


def frechet_distance(one: ChemNetStatistics, two: ChemNetStatistics) -> float:
    """`|m1 − m2|² + tr(C1 + C2 − 2 (C1 C2)^½)`, squared as the FCD is always reported.

    The trace of the root is that of the symmetric `(C1^½ C2 C1^½)^½`: real by construction, also where
    covariances of few molecules are singular.
    """
    if not all(np.isfinite(part).all() for some in (one, two) for part in (some.mean, some.covariance)):
        raise InputError("The ChemNet statistics are not finite; make them again.")
    # With torch, whose number of threads the caller has chosen.
    first, second = torch.from_numpy(one.covariance), torch.from_numpy(two.covariance)
    values, vectors = torch.linalg.eigh(first)
    root = (vectors * values.clamp(min=0.0).sqrt()) @ vectors.T
    product = root @ second @ root
    overlap = torch.linalg.eigvalsh((product + product.T) / 2).clamp(min=0.0).sqrt().sum()
    shift = float(np.square(one.mean - two.mean).sum())
    return max(0.0, shift + float(first.trace() + second.trace() - 2 * overlap))
