"""All that is measured about sampled molecules, each figure by a named protocol.

Shares are in `metrics`; here are the distances of samples from held-out molecules, and what MOSES measures.
Names that end in `_testsf` compare with the test set of MOSES whose scaffolds do not occur in training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from catnf.errors import MissingDependencyError, StorageError
from catnf.tasks.molecules.distributions import COUNTED, Profile, profile_distances
from catnf.tasks.molecules.fcd import ChemNet, ChemNetStatistics, frechet_distance
from catnf.tasks.molecules.filters import passes_filters
from catnf.tasks.molecules.metrics import Reading, read_graphs, sample_metrics
from catnf.tasks.molecules.references import Reference, held_out, new_scaffolds, published_file
from catnf.tasks.molecules.similarity import Structures, moses_diversities, moses_similarities
from catnf.tasks.molecules.vocabulary import MolecularGraph
from catnf.tasks.task import Measured, Measurement, Measuring

if TYPE_CHECKING:
    from catnf.tasks.molecules.data import Molecules

Values = dict[str, Measurement]

_STRICT = "of the strictly valid samples, repeated ones counted"
_LARGEST = "of the largest connected part of every sample whose part is strictly valid"
_CORRECTED = "of all samples, corrected as GDSS does: charges +1 on N, O and S, bonds weakened, one part kept"

_SIMILARITIES = {
    "snn": "SNN of MOSES: Tanimoto similarity to the nearest molecule, Morgan fingerprints of radius 2",
    "scaffolds": "Scaf of MOSES: cosine of the frequencies of Bemis–Murcko scaffolds of two rings or more",
    "fragments": "Frag of MOSES: cosine of the frequencies of BRICS fragments",
}
_DIVERSITIES = {
    "diversity": "IntDiv of MOSES: one minus the mean Tanimoto similarity of pairs",
    "diversity_2": "IntDiv2 of MOSES: the same with root mean squares",
}
_FILTERS = "Filters of MOSES: neutral, usual elements, no large ring, neither PAINS nor MCF"


def measure_graphs(task: Molecules, graphs: Sequence[MolecularGraph], how: Measuring) -> Measured:
    """Everything about sampled graphs that can be measured here; the notes say what cannot, and why."""
    known = None
    if how.thorough:
        known = task.known(
            lambda done, total: how.progress("Reading training molecules, once", done, total), how.workers
        )
    tell = how.stage("Reading samples", len(graphs))
    readings = read_graphs(graphs, task.vocabulary, how.workers, tell)
    values, notes = sample_metrics(readings, known), list[str]()
    if not how.thorough:
        return Measured(values, notes)
    strict = [reading.strict for reading in readings if reading.strict is not None]
    if strict:
        passed = passes_filters(strict, how.workers, how.stage("Filtering samples", len(strict)))
        values["filters"] = Measurement(sum(passed) / len(strict), len(strict), f"{_FILTERS}; {_STRICT}")
    else:
        notes.append("No sample is strictly valid, so that similarities and distributions are left out.")
    try:
        reference = held_out(task, how)
    except StorageError as error:
        return Measured(values, [*notes, f"Samples are not compared with held-out molecules: {error}"])
    scaffolds = new_scaffolds(task, how)
    if strict:
        values |= _similarities(strict, reference, scaffolds, how)
        values |= _distributions(strict, reference, how)
    distances, more = _chemnet_distances(_comparisons(task, readings, reference, scaffolds), how)
    return Measured(values | distances, notes + more)


def _similarities(
    smiles: Sequence[str], reference: Reference, scaffolds: Reference | None, how: Measuring
) -> Values:
    samples = Structures.of(smiles, how.workers, how.stage("Taking samples apart", len(smiles)))
    values = {
        name: Measurement(value, len(smiles), f"{_DIVERSITIES[name]}; {_STRICT}", False)
        for name, value in moses_diversities(samples, how.device).items()
    }
    for suffix, beside in (("", reference), ("_testsf", scaffolds)):
        if beside is None:
            continue
        for name, value in moses_similarities(samples, beside.structures, how.device).items():
            text = f"{_SIMILARITIES[name]}; {_STRICT}; beside {_told(beside)}"
            values[name + suffix] = Measurement(value, len(smiles), text, False)
    return values


def _distributions(smiles: Sequence[str], reference: Reference, how: Measuring) -> Values:
    samples = Profile.of(smiles, how.workers, how.stage("Describing samples", len(smiles)))
    values = {}
    for name, distance in profile_distances(samples, reference.profile).items():
        kind = "total variation" if name in COUNTED else "Wasserstein distance"
        what = f"{kind} of the distributions of {name.replace('_', ' ')}"
        text = f"{what}; {_STRICT}; beside {_told(reference)}"
        values[f"distance_{name}"] = Measurement(distance, len(smiles), text, False)
    return values


@dataclass(frozen=True)
class _Comparison:
    """A Fréchet ChemNet distance: of which SMILES of samples, from which statistics, told as `protocol`."""

    samples: list[str]
    statistics: Callable[[ChemNet], ChemNetStatistics]
    protocol: str


def _chemnet_distances(wanted: dict[str, _Comparison], how: Measuring) -> tuple[Values, list[str]]:
    try:
        network = ChemNet(how.device)
    except MissingDependencyError as error:
        return {}, [str(error)]
    values, notes = {}, []
    features = _Features(network, [text for one in wanted.values() for text in one.samples], how)
    for name, comparison in wanted.items():
        n = len(comparison.samples)
        if n < 2:
            notes.append(f"{name} is left out: it needs two molecules at least, and there are {n}.")
            continue
        try:
            other = comparison.statistics(network)
        except StorageError as error:
            notes.append(f"{name} is left out: {error}")
            continue
        distance = frechet_distance(ChemNetStatistics.of(features[comparison.samples]), other)
        many = f", {other.n:,} molecules" if other.n else ""  # published statistics do not say
        values[name] = Measurement(distance, n, comparison.protocol + many, False)
    return values, notes


def _comparisons(
    task: Molecules, readings: Sequence[Reading], reference: Reference, scaffolds: Reference | None
) -> dict[str, _Comparison]:
    """The distances that are usual for the data."""
    strict = [reading.strict for reading in readings if reading.strict is not None]
    largest = [reading.largest for reading in readings if reading.largest is not None]
    corrected = [reading.corrected for reading in readings if reading.corrected is not None]
    if task.source == "moses":
        # Its molecules have neither charges nor stereo marks, so that the encoding leaves them as they are.
        wanted = {"fcd": _of_moses(strict, reference)}
        return wanted | ({} if scaffolds is None else {"fcd_testsf": _of_moses(strict, scaffolds)})
    text = f"FCD, DiGress line: {_LARGEST}; beside {_encoded(reference)}"
    encoded = _Comparison(largest, reference.statistics, text)
    if task.source != "zinc250k":
        return {"fcd_encoded": encoded}
    text = f"FCD, GDSS line: {_CORRECTED}; beside the original SMILES of {reference.name}"
    return {"fcd": _Comparison(corrected, reference.original, text), "fcd_encoded": encoded}


def _of_moses(strict: list[str], reference: Reference) -> _Comparison:
    path = published_file(reference)
    text = f"FCD of MOSES: {_STRICT}; beside "
    if path is None:
        return _Comparison(strict, reference.statistics, text + _encoded(reference))
    text += f"the published statistics of {reference.name}"
    return _Comparison(strict, lambda network: ChemNetStatistics.load(path, reference.name), text)


class _Features:
    """ChemNet features of SMILES, each of them looked at once however often it occurs."""

    def __init__(self, network: ChemNet, smiles: Sequence[str], how: Measuring) -> None:
        distinct = list(dict.fromkeys(smiles))
        self._places = {text: place for place, text in enumerate(distinct)}
        self._rows = network.features(
            distinct, progress=lambda done: how.progress("Looking at samples", done, len(distinct))
        )

    def __getitem__(self, smiles: Sequence[str]) -> NDArray[np.float32]:
        """Features `[molecules, 512]`."""
        return self._rows[[self._places[text] for text in smiles]]


def _told(reference: Reference) -> str:
    return f"{_encoded(reference)}, {len(reference):,} molecules"


def _encoded(reference: Reference) -> str:
    return f"the valid ones of {reference.name}, as the encoding leaves them"
