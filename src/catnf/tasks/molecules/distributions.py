"""Sizes, atoms, bonds, rings, logP and QED of samples beside those of the data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from catnf.errors import InputError
from catnf.processes import map_chunks
from catnf.tasks.molecules.chemistry import quiet, rdkit, read_smiles
from catnf.tasks.molecules.kept import Arrays, pack_counts, unpack_counts
from catnf.tasks.molecules.vocabulary import BONDS, Vocabulary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

COUNTED = ("size", "atoms", "bonds", "rings", "ring_sizes")
"""Compared by total variation: half the sum of absolute differences of shares, from 0 to 1."""

MEASURED = ("logp", "qed")
"""Compared by the Wasserstein distance, in units of the property."""

_LABELS = {
    "size": "heavy atoms of a molecule",
    "atoms": "atoms (log scale)",
    "bonds": "bonds, kekulized (log scale)",
    "rings": "rings of a molecule",
    "ring_sizes": "atoms of a ring",
    "logp": "logP",
    "qed": "QED",
}


@dataclass(frozen=True, eq=False)
class Profile:
    """Distributions over a set of molecules.

    Attributes:
        counts: for each name of `COUNTED`, how often every value occurs.
        values: for each name of `MEASURED`, the value of every molecule, `[molecules]`.
        n: number of molecules.
    """

    counts: Mapping[str, Mapping[str, int]]
    values: Mapping[str, Array]
    n: int

    @classmethod
    def of(
        cls,
        smiles: Sequence[str],
        workers: int = 1,
        progress: Callable[[int], None] = lambda count: None,
    ) -> Profile:
        """The profile of valid SMILES; rings are those of the smallest set of smallest rings.

        `progress` is told how many more are done.
        """
        if not smiles:
            raise InputError("There are no molecules to describe; give at least one SMILES.")
        parts = map_chunks(_describe, smiles, workers, progress=progress)
        counts: dict[str, Counter[str]] = {name: Counter() for name in COUNTED}
        for part in parts:
            counts["size"][str(sum(part.atoms.values()))] += 1
            counts["rings"][str(sum(part.ring_sizes.values()))] += 1
            counts["atoms"].update(part.atoms)
            counts["bonds"].update(part.bonds)
            counts["ring_sizes"].update(part.ring_sizes)
        values = {"logp": [part.logp for part in parts], "qed": [part.qed for part in parts]}
        return cls(counts, {name: np.array(some) for name, some in values.items()}, len(parts))

    def arrays(self) -> Arrays:
        """All of it as arrays, for a file."""
        return {"counts": pack_counts(self.counts), **self.values}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Profile:
        """What `arrays` gave."""
        values = {name: arrays[name] for name in MEASURED}
        return cls(unpack_counts(arrays["counts"]), values, len(values[MEASURED[0]]))


@dataclass(frozen=True)
class _Description:
    """One molecule: its kinds of atoms, of bonds and of rings, each counted, and two properties."""

    atoms: Counter[str]
    bonds: Counter[str]
    ring_sizes: Counter[str]
    logp: float
    qed: float


def _describe(smiles: Sequence[str]) -> list[_Description]:
    Chem, crippen, qed = rdkit(), rdkit("Chem.Crippen"), rdkit("Chem.QED")
    found = []
    with quiet():
        for mol in read_smiles(smiles):
            logp, score = crippen.MolLogP(mol), qed.qed(mol)
            Chem.Kekulize(mol)
            labels = [Vocabulary.label(a.GetSymbol(), a.GetFormalCharge()) for a in mol.GetAtoms()]
            found.append(
                _Description(
                    Counter(labels),
                    Counter(_bond(bond) for bond in mol.GetBonds()),
                    Counter(str(len(ring)) for ring in mol.GetRingInfo().AtomRings()),
                    float(logp),
                    float(score),
                )
            )
    return found


def _bond(bond: Any) -> str:
    order = int(bond.GetBondTypeAsDouble())
    return BONDS[order] if 1 <= order < len(BONDS) else "other"


def profile_distances(samples: Profile, data: Profile) -> dict[str, float]:
    """Distances of all distributions: total variation of `COUNTED`, Wasserstein of `MEASURED`."""
    counted = {name: total_variation(samples.counts[name], data.counts[name]) for name in COUNTED}
    return counted | {name: wasserstein(samples.values[name], data.values[name]) for name in MEASURED}


def total_variation(one: Mapping[str, int], two: Mapping[str, int]) -> float:
    """Half the sum of absolute differences of shares; 1 where only one of both has any.

    >>> total_variation({"C": 3, "N": 1}, {"C": 1, "N": 1})
    0.25
    """
    totals = sum(one.values()), sum(two.values())
    if not all(totals):
        return float(any(totals))
    names = sorted(one.keys() | two.keys())  # always summed in the same order
    return sum(abs(one.get(name, 0) / totals[0] - two.get(name, 0) / totals[1]) for name in names) / 2


def wasserstein(one: Array, two: Array) -> float:
    """The area between the distribution functions of two lists of values.

    >>> wasserstein(np.array([0.0, 1.0]), np.array([2.0, 3.0, 2.0, 3.0]))
    2.0
    """
    places = np.sort(np.concatenate([one, two]))
    below = [
        np.searchsorted(np.sort(values), places[:-1], side="right") / len(values) for values in (one, two)
    ]
    return float((np.abs(below[0] - below[1]) * np.diff(places)).sum())


def draw_distributions(path: Path, profiles: Mapping[str, Profile]) -> Path:
    """Plot all distributions of several sets of molecules, by name, such as data and samples, into a PNG."""
    from catnf.drawing import make_figure, save_figure

    if not profiles:
        raise InputError("There are no distributions to draw; give at least one profile.")
    figure = make_figure(14.0, 6.5)
    for index, name in enumerate((*COUNTED, *MEASURED), 1):
        axes = figure.add_subplot(2, 4, index)
        if name in COUNTED:
            _bars(axes, {title: profile.counts[name] for title, profile in profiles.items()})
        else:
            _curves(axes, {title: profile.values[name] for title, profile in profiles.items()})
        axes.set_xlabel(_LABELS[name])
        axes.set_yticks([])
        axes.set_yticks([], minor=True)
        axes.spines[["left", "right", "top"]].set_visible(False)
    handles, titles = figure.axes[0].get_legend_handles_labels()
    titles = [f"{title}, n = {profiles[title].n:,}" for title in titles]
    figure.legend(handles, titles, loc="lower right", bbox_to_anchor=(0.98, 0.2), frameon=False, fontsize=11)
    return save_figure(figure, path)


def _bars(axes: Axes, counts: Mapping[str, Mapping[str, int]]) -> None:
    """Shares of values, side by side: numbers in their order, names by how frequent they are in the first."""
    names = set().union(*counts.values())
    first = next(iter(counts.values()))
    if all(name.isdigit() for name in names):
        ordered = [
            str(value)
            for value in range(min(map(int, names), default=0), max(map(int, names), default=0) + 1)
        ]
    else:
        ordered = sorted(names, key=lambda name: (-first.get(name, 0), name))
    width = 0.85 / len(counts)
    for place, (title, own) in enumerate(counts.items()):
        total = max(1, sum(own.values()))
        at = np.arange(len(ordered)) + (place - (len(counts) - 1) / 2) * width
        axes.bar(at, [own.get(name, 0) / total for name in ordered], width, label=title)
    step = -(-len(ordered) // 16)  # more names than that cover one another
    axes.set_xticks(range(0, len(ordered), step), ordered[::step])
    if not all(name.isdigit() for name in names):
        axes.set_yscale("log")  # rare elements matter too


def _curves(axes: Axes, values: Mapping[str, Array]) -> None:
    """Histograms as lines, over the range of nearly all values."""
    together = np.concatenate(list(values.values()))
    low, high = np.quantile(together, [0.002, 0.998])
    edges = np.linspace(low, max(high, low + 1e-6), 61)
    for title, own in values.items():
        shares = np.histogram(own, edges)[0] / len(own)
        axes.stairs(shares, edges, label=title, linewidth=1.6)
