"""How alike samples and reference molecules are, as the MOSES benchmark defines it.

MOSES takes all valid samples, repeated ones too, at least 30,000 of them, and its sets `test` and
`test_scaffolds` as references.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from catnf.errors import InputError
from catnf.processes import map_chunks
from catnf.tasks.molecules.chemistry import quiet, rdkit, read_smiles
from catnf.tasks.molecules.kept import Arrays, pack_counts, unpack_counts

_BITS, _RADIUS = 1024, 2  # of the Morgan fingerprints
_FEWEST_RINGS = 2  # of a scaffold that counts
_BLOCK = 4096  # fingerprints compared at once


@dataclass(frozen=True, eq=False)
class Structures:
    """What is compared of a set of molecules.

    Attributes:
        prints: Morgan fingerprints of radius 2 and 1024 bits, eight in a byte, `[molecules, 128]`.
        scaffolds: how many molecules have each Bemis–Murcko scaffold, if it has two rings or more.
        fragments: how often each BRICS fragment occurs.
    """

    prints: NDArray[np.uint8]
    scaffolds: Mapping[str, int]
    fragments: Mapping[str, int]

    @classmethod
    def of(
        cls,
        smiles: Sequence[str],
        workers: int = 1,
        progress: Callable[[int], None] = lambda count: None,
    ) -> Structures:
        """Fingerprints, scaffolds and fragments of valid SMILES; `progress` hears how many more are done."""
        if not smiles:
            raise InputError("There are no molecules to compare; give at least one SMILES.")
        parts = map_chunks(_structures, smiles, workers, progress=progress)
        scaffolds = Counter(part.scaffold for part in parts if part.scaffold)
        fragments = Counter(fragment for part in parts for fragment in part.fragments)
        return cls(np.stack([part.bits for part in parts]), scaffolds, fragments)

    def arrays(self) -> Arrays:
        """All of it as arrays, for a file."""
        counts = {"scaffolds": self.scaffolds, "fragments": self.fragments}
        return {"prints": self.prints, "counts": pack_counts(counts)}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Structures:
        """What `arrays` gave."""
        return cls(arrays["prints"], **unpack_counts(arrays["counts"]))


@dataclass(frozen=True, eq=False)
class _Structure:
    """Of one molecule: packed fingerprint `[128]`, scaffold or an empty text, fragments."""

    bits: NDArray[np.uint8]
    scaffold: str
    fragments: list[str]


def _structures(smiles: Sequence[str]) -> list[_Structure]:
    Chem = rdkit()
    generator = rdkit("Chem.rdFingerprintGenerator").GetMorganGenerator(radius=_RADIUS, fpSize=_BITS)
    murcko = rdkit("Chem.Scaffolds.MurckoScaffold")
    found = []
    for mol in read_smiles(smiles):
        with quiet():
            bits = np.packbits(generator.GetFingerprintAsNumPy(mol))
            frame = murcko.GetScaffoldForMol(mol)
            rings = frame.GetRingInfo().NumRings()
            scaffold = Chem.MolToSmiles(frame) if rings >= _FEWEST_RINGS else ""
            fragments = Chem.MolToSmiles(Chem.FragmentOnBRICSBonds(mol)).split(".")
        found.append(_Structure(bits, scaffold, fragments))
    return found


def moses_similarities(
    samples: Structures, reference: Structures, device: torch.device | str = "cpu"
) -> dict[str, float]:
    """How alike samples are to a reference: `snn`, `scaffolds`, `fragments`.

    A cosine of nothing, where no molecule has a scaffold, is left out.
    """
    values = {
        "snn": nearest_similarity(samples, reference, device),
        "scaffolds": scaffold_similarity(samples, reference),
        "fragments": fragment_similarity(samples, reference),
    }
    return {name: value for name, value in values.items() if not math.isnan(value)}


def moses_diversities(samples: Structures, device: torch.device | str = "cpu") -> dict[str, float]:
    """How unlike samples are to one another: `diversity`, `diversity_2`."""
    powers = {"diversity": 1, "diversity_2": 2}
    return {name: internal_diversity(samples, power, device) for name, power in powers.items()}


def nearest_similarity(
    samples: Structures, reference: Structures, device: torch.device | str = "cpu"
) -> float:
    """SNN: the Tanimoto similarity of a sample to the nearest reference molecule, averaged over samples."""
    total = 0.0
    for mine in _blocks(samples.prints, device):
        best = torch.zeros(len(mine), device=mine.device)
        for theirs in _blocks(reference.prints, device):
            best = torch.maximum(best, _tanimoto(mine, theirs).amax(1))
        total += float(best.double().sum())
    return total / len(samples.prints)


def internal_diversity(samples: Structures, power: int = 1, device: torch.device | str = "cpu") -> float:
    """IntDiv: `1 − mean_x (mean_y T(x, y)^p)^(1/p)` over all pairs of samples, equal ones too."""
    total = 0.0
    count = len(samples.prints)
    for mine in _blocks(samples.prints, device):
        sums = torch.zeros(len(mine), dtype=torch.float64, device=mine.device)
        for theirs in _blocks(samples.prints, device):
            sums += (_tanimoto(mine, theirs) ** power).double().sum(1)
        total += float(((sums / count) ** (1 / power)).sum())
    return 1.0 - total / count


def scaffold_similarity(samples: Structures, reference: Structures) -> float:
    """Scaf: the cosine of how often scaffolds occur; NaN where there are none."""
    return cosine(samples.scaffolds, reference.scaffolds)


def fragment_similarity(samples: Structures, reference: Structures) -> float:
    """Frag: the cosine of how often BRICS fragments occur."""
    return cosine(samples.fragments, reference.fragments)


def cosine(one: Mapping[str, int], two: Mapping[str, int]) -> float:
    """The cosine of two vectors of counts, those that are not named being 0; NaN if either has none.

    >>> cosine({"C": 3, "N": 4}, {"C": 3, "N": 4}), cosine({"C": 1}, {"N": 1})
    (1.0, 0.0)
    """
    if not one or not two:
        return math.nan
    product = sum(count * two.get(name, 0) for name, count in one.items())
    squares = [sum(count**2 for count in counts.values()) for counts in (one, two)]
    return product / math.sqrt(squares[0] * squares[1])


def _blocks(prints: NDArray[np.uint8], device: torch.device | str) -> Iterator[Tensor]:
    """Bits `[block, 1024]` of packed fingerprints `[molecules, 128]`, as floats."""
    for start in range(0, len(prints), _BLOCK):
        bits = np.unpackbits(prints[start : start + _BLOCK], axis=1)
        yield torch.from_numpy(bits).to(device).float()


def _tanimoto(one: Tensor, two: Tensor) -> Tensor:
    """Similarities `[rows of one, rows of two]`: bits in both over bits in either, 1 where there are none."""
    both = one @ two.T
    either = one.sum(1, keepdim=True) + two.sum(1) - both
    return torch.where(either > 0, both / either.clamp(min=1.0), 1.0)
