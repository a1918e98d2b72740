"""Molecules from a trained model, and the likelihood of given ones.

Likelihoods are those of a graph whose atoms are numbered, given how many there are; charges that the model
does not know, stereochemistry and isotopes are no part of it. Bits are for an atom, which is a node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count as numbers
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from catnf.errors import InputError
from catnf.fitted import FittedModel, load
from catnf.processes import map_chunks
from catnf.sampling import SamplingOptions, draw_piece, drawing_model, molecule_task, most_at_once
from catnf.tasks.molecules.archive import MoleculeArchive
from catnf.tasks.molecules.chemistry import largest_fragment, loose_smiles, strict_smiles
from catnf.tasks.molecules.data import Molecules, Tables
from catnf.tasks.molecules.vocabulary import MolecularGraph, Vocabulary

DEFAULT_MODEL = "molecules/zinc250k/growth-small"

_FEWEST_AT_ONCE = 64  # of which some should be valid
_DRAWS_A_VALID = 2000  # without a further valid one in so many, looking for them ends
_STRIDE = 4  # molecules are padded to multiples of this, those of a multiple are scored together
_PAIRS_AT_ONCE = {"cuda": 1 << 22, "cpu": 1 << 18}  # pairs of atoms that are scored at once, with all draws


@dataclass(frozen=True)
class SampledMolecule:
    """A sample.

    Attributes:
        smiles: canonical where it is valid; else what was drawn, which RDKit may refuse.
        valid: whether it is one connected molecule that RDKit accepts as it is.
        bits_per_node: one draw of an upper bound of its bits; more are more unusual.
        graph: the sample itself.
    """

    smiles: str
    valid: bool
    bits_per_node: float
    graph: MolecularGraph


@dataclass(frozen=True)
class ScoredMolecule:
    """A given molecule and how likely it is.

    Attributes:
        smiles: as given.
        log_likelihood: importance-weighted bound in nats; NaN where the molecule cannot be used.
        bits_per_node: the same as bits for an atom, the more the more unusual.
        problem: why it cannot be used; empty otherwise.
    """

    smiles: str
    log_likelihood: float
    bits_per_node: float
    problem: str = ""


class SampledChunk(NamedTuple):
    """Some of the samples.

    Attributes:
        molecules: those asked for.
        drawn: how many were drawn for them.
        valid: how many of these are valid.
    """

    molecules: list[SampledMolecule]
    drawn: int
    valid: int


def sample_molecules(
    count: int,
    model: str | Path | FittedModel | None = None,
    seed: int | None = 0,
    temperature: float = 1.0,
    largest: bool = False,
    valid_only: bool = False,
    device: torch.device | str = "cpu",
) -> list[SampledMolecule]:
    """Draw molecules.

    Args:
        count: how many.
        model: a trained model, its name or path; by default the bundled one of Zinc250k.
        seed: for the same molecules again.
        temperature: 1 is the model itself; below it samples are more alike.
        largest: give the largest connected fragment of every sample instead of the whole.
        valid_only: draw until `count` valid ones are there.
        device: where to compute, if the model is not loaded yet.
    """
    options = SamplingOptions(count, seed, temperature, largest, valid_only)
    chunks = stream_molecules(molecule_model(model, device), options)
    return [molecule for chunk in chunks for molecule in chunk.molecules]


def stream_molecules(fitted: FittedModel, options: SamplingOptions) -> Iterator[SampledChunk]:
    """Draw molecules piece by piece, in memory that does not depend on their number.

    Where only valid ones are wanted and there are next to none, this ends with an `InputError`.
    """
    vocabulary = molecule_task(fitted).vocabulary
    options, most, model = options.seeded(), most_at_once(fitted), drawing_model(fitted)
    kept = drawn = valid = 0
    for number in numbers():
        left = options.count - kept
        size = min(most, max(options.count, _FEWEST_AT_ONCE) if options.valid_only else left)
        graphs, own = draw_piece(model, options, number, size)
        if options.largest:
            graphs = [largest_fragment(graph) for graph in graphs]
        readings = [(graph, strict_smiles(graph, vocabulary)) for graph in graphs]
        found = sum(smiles is not None for _, smiles in readings)
        if options.valid_only:
            readings = [reading for reading in readings if reading[1] is not None][:left]
        molecules = _sampled(fitted, readings, own)
        kept, drawn, valid = kept + len(molecules), drawn + size, valid + found
        yield SampledChunk(molecules, size, found)
        if kept == options.count:
            return
        if options.valid_only and drawn >= _DRAWS_A_VALID * (valid + 1):
            raise InputError(
                f"Only {valid:,} of {drawn:,} samples are valid, too few to find {options.count:,}; lower "
                "the temperature, take the largest fragments, or train the model longer."
            )


def score_molecules(
    smiles: Sequence[str],
    model: str | Path | FittedModel | None = None,
    samples: int = 10,
    seed: int | None = 0,
    device: torch.device | str = "cpu",
    progress: Callable[[int], None] = lambda count: None,
    workers: int = 1,
) -> list[ScoredMolecule]:
    """The likelihood of molecules, in their order; those that cannot be used say why.

    Args:
        smiles: one molecule each.
        model: a trained model, its name or path; by default the bundled one of Zinc250k.
        samples: draws of the bound for every molecule; more tighten it.
        seed: for the same draws again.
        device: where to compute, if the model is not loaded yet.
        progress: called with the number of further molecules that are scored.
        workers: processes that read SMILES; several only where the main module can be imported again.
    """
    if isinstance(smiles, str):
        raise InputError(f"smiles is {smiles!r}; give a list, for instance [{smiles!r}].")
    if samples < 1:
        raise InputError(f"samples is {samples}; give at least 1.")
    fitted = molecule_model(model, device)
    read = read_molecules(smiles, molecule_task(fitted), workers)
    graphs = [found for found in read if isinstance(found, MolecularGraph)]
    progress(len(read) - len(graphs))
    values = iter(log_likelihoods(fitted, graphs, samples, seed, progress).tolist())
    scored = []
    for text, found in zip(smiles, read, strict=True):
        if isinstance(found, str):
            scored.append(ScoredMolecule(text, math.nan, math.nan, found))
        else:
            value = next(values)
            scored.append(ScoredMolecule(text, value, _bits(value, found)))
    return scored


def log_likelihoods(
    fitted: FittedModel,
    graphs: Sequence[MolecularGraph],
    samples: int,
    seed: int | None,
    progress: Callable[[int], None] = lambda count: None,
) -> Tensor:
    """The importance-weighted bound of every graph, in nats: `[graphs]`."""
    task = molecule_task(fitted)
    most = _PAIRS_AT_ONCE.get(fitted.device.type, _PAIRS_AT_ONCE["cpu"])
    values = torch.zeros(len(graphs))
    # Graphs of about one size at a time, padded to that: the work grows with its square.
    sizes = np.array([len(graph.atoms) for graph in graphs], dtype=np.int64)
    paddings = -(-sizes // _STRIDE) * _STRIDE
    for padding in np.unique(paddings).tolist():
        group = np.flatnonzero(paddings == padding)
        pairs = max(1, most // padding**2)
        at_once = max(1, pairs // samples)
        for start in range(0, len(group), at_once):
            chosen = group[start : start + at_once]
            archive = MoleculeArchive.pack([graphs[place] for place in chosen])
            x, ctx = Tables.of(archive, padding, task.bonds).take(slice(None), padding)
            own = None if seed is None else (seed + int(chosen[0])) % 2**32
            values[chosen] = fitted.log_prob(x, samples, own, pairs, ctx)
            progress(len(chosen))
    return values


def read_molecules(smiles: Sequence[str], task: Molecules, workers: int = 1) -> list[MolecularGraph | str]:
    """The graphs of SMILES as a model's task knows them, or why there is none."""
    read = partial(_read, vocabulary=task.vocabulary, nodes=task.nodes, bonds=task.bonds)
    return map_chunks(read, smiles, workers)


def _read(
    smiles: Sequence[str], vocabulary: Vocabulary, nodes: int, bonds: int
) -> list[MolecularGraph | str]:
    from catnf.tasks.molecules.smiles import Refusal, encode

    read: list[MolecularGraph | str] = []
    for text in smiles:
        found = encode(text, vocabulary)
        if found is Refusal.ATOM:
            read.append(f"{found}; the model knows {' '.join(vocabulary.atoms)}")
        elif isinstance(found, Refusal):
            read.append(str(found))
        elif len(found.atoms) > nodes or len(found.bonds) > bonds:
            read.append(
                f"too large, {len(found.atoms)} atoms and {len(found.bonds)} bonds; the model knows up to "
                f"{nodes} and {bonds}"
            )
        elif strict_smiles(found, vocabulary) is None:
            read.append(f"{Refusal.CHARGE}, which the model does not know")
        else:
            read.append(found)
    return read


def molecule_model(model: str | Path | FittedModel | None, device: torch.device | str = "cpu") -> FittedModel:
    """A model of molecules: itself, or loaded by name or path; by default the bundled one of Zinc250k."""
    fitted = model if isinstance(model, FittedModel) else load(model or DEFAULT_MODEL, device)
    molecule_task(fitted)
    return fitted


def _sampled(
    fitted: FittedModel, readings: list[tuple[MolecularGraph, str | None]], seed: int
) -> list[SampledMolecule]:
    values = log_likelihoods(fitted, [graph for graph, _ in readings], 1, seed).tolist()
    vocabulary = molecule_task(fitted).vocabulary
    return [
        SampledMolecule(smiles or loose_smiles(graph, vocabulary), smiles is not None, _bits(v, graph), graph)
        for (graph, smiles), v in zip(readings, values, strict=True)
    ]


def _bits(nats: float, graph: MolecularGraph) -> float:
    return -nats / len(graph.atoms) / math.log(2)
