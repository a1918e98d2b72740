"""Paths between two molecules through the latent space of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from catnf.context import Context
from catnf.errors import InputError
from catnf.fitted import FittedModel
from catnf.flows.base import STANDARD_SCALE
from catnf.flows.coupling import unconverged_roots
from catnf.flows.joint import GraphLatents
from catnf.models.graph_model import GraphModel
from catnf.molecules import molecule_model, read_molecules
from catnf.sampling import molecule_task
from catnf.seeds import check_seed, seeded_generator
from catnf.tasks.molecules.archive import MoleculeArchive
from catnf.tasks.molecules.chemistry import canonical_smiles, loose_smiles, strict_smiles
from catnf.tasks.molecules.data import Tables
from catnf.tasks.molecules.vocabulary import MolecularGraph

_TAIL = 1e-12  # probabilities are kept this far from 0 and 1, where the normal quantile is infinite


@dataclass(frozen=True)
class PathStep:
    """A place on the way from one molecule to another.

    Attributes:
        share: of the way, from 0 to 1.
        smiles: canonical where it is valid; else what was decoded, which RDKit may refuse.
        valid: whether it is one connected molecule that RDKit accepts as it is.
        graph: what was decoded.
        reached: false for an end of the path that is not the molecule which was given.
    """

    share: float
    smiles: str
    valid: bool
    graph: MolecularGraph
    reached: bool = True


def interpolate_molecules(
    first: str,
    second: str,
    model: str | Path | FittedModel | None = None,
    steps: int = 8,
    seed: int | None = 0,
    device: torch.device | str = "cpu",
) -> list[PathStep]:
    """Molecules on a path between two, both ends among them as they come back from the latents.

    Atoms are matched in the order of the canonical SMILES, in which neighbours mostly follow each other. The
    latents of matched atoms, and of pairs of them, move along a great circle, after a change of variables
    that makes the base distribution normal: so all points of the path are as likely as samples are, where the
    middle of a straight line would be like a sample at a low temperature. The number of atoms changes evenly
    from one end to the other; atoms that only the larger molecule has, and their pairs, keep its latents.
    Encoding is random: another seed gives another path between the same ends.

    Args:
        first: SMILES where the path begins.
        second: SMILES where it ends.
        model: a trained model, its name or path; by default the bundled one of Zinc250k.
        steps: molecules on the path, at least the 2 ends.
        seed: for the same path again.
        device: where to compute, if the model is not loaded yet.
    """
    if steps < 2:
        raise InputError(f"steps is {steps}; give at least 2, for both ends.")
    check_seed(seed)
    fitted = molecule_model(model, device)
    task = molecule_task(fitted)
    net = fitted.model
    assert isinstance(net, GraphModel)
    ends = [_read(text, fitted) for text in (first, second)]
    sizes = [len(graph.atoms) for graph in ends]
    nodes = max(2, *sizes)
    x, ctx = Tables.of(MoleculeArchive.pack(ends), nodes, task.bonds).take(slice(None), nodes)
    z = net.encode(x.to(fitted.device), ctx.to(fitted.device), seeded_generator(seed, fitted.device))
    shares = torch.linspace(0.0, 1.0, steps, dtype=torch.float64)
    moved, path = _latent_path(z, sizes, shares)
    with torch.no_grad():
        decoded = net.decode(moved, path)
    unconverged_roots(net)  # so that the next samples are not blamed for these
    graphs = task.graphs(decoded, path.to("cpu"))
    found = []
    for share, graph in zip(shares.tolist(), graphs, strict=True):
        smiles = strict_smiles(graph, task.vocabulary)
        text = smiles or loose_smiles(graph, task.vocabulary)
        found.append(PathStep(share, text, smiles is not None, graph))
    for place, end in ((0, ends[0]), (-1, ends[1])):
        reached = found[place].smiles == strict_smiles(end, task.vocabulary)
        found[place] = replace(found[place], reached=reached)
    return found


def great_circle(first: Tensor, second: Tensor, shares: Tensor) -> Tensor:
    """Points `[steps, size]` between `first` and `second: [size]`, `shares: [steps]` of the way.

    >>> east, north = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    >>> great_circle(east, north, torch.tensor([0.0, 0.5, 1.0]))
    tensor([[1.0000, 0.0000],
            [0.7071, 0.7071],
            [0.0000, 1.0000]])
    """
    lengths = (first.norm() * second.norm()).clamp(min=1e-12)
    angle = torch.arccos((first @ second / lengths).clamp(-1.0, 1.0))
    share = shares.unsqueeze(1)
    if float(angle.sin()) < 1e-6:  # alike, or opposite, where there is no one circle
        return (1 - share) * first + share * second
    before, after = ((1 - share) * angle).sin(), (share * angle).sin()
    return (before * first + after * second) / angle.sin()


def _latent_path(z: GraphLatents, sizes: Sequence[int], shares: Tensor) -> tuple[GraphLatents, Context]:
    """Latents of a path with its context, from those of both ends.

    Args:
        z: of both ends, `[2, nodes, channels]` and `[2, pairs, channels]`.
        sizes: how many nodes they have.
        shares: of the way, `[steps]`.
    """
    nodes = z.nodes.shape[1]
    counts = (sizes[0] + shares * (sizes[1] - sizes[0])).round().long()
    path = Context(len(shares), nodes, torch.arange(nodes) < counts.unsqueeze(1)).to(z.nodes.device)
    larger = int(sizes[1] > sizes[0])
    both = Context(1, nodes, (torch.arange(nodes) < min(sizes)).unsqueeze(0))
    moved = GraphLatents(
        path.hide(_move(z.nodes, shares, both.mask, larger)),
        path.pairs().hide(_move(z.edges, shares, both.pairs().mask, larger)),
    )
    return moved, path


def _move(z: Tensor, shares: Tensor, shared: Tensor | None, larger: int) -> Tensor:
    """Latents `[steps, elements, channels]` of a path.

    Args:
        z: of both ends, `[2, elements, channels]`.
        shares: of the way, `[steps]`.
        shared: which elements both ends have, `[1, elements]`.
        larger: the end that has all elements.
    """
    assert shared is not None
    place = shared[0].to(z.device)
    moved = z[larger].double().expand(len(shares), -1, -1).clone()
    first, second = z[:, place].double()
    if first.numel():
        points = great_circle(_normal(first).flatten(), _normal(second).flatten(), shares.to(z.device))
        between = _logistic(points).view(len(shares), *first.shape)
        between[0], between[-1] = first, second  # exactly, also far in the tails
        moved[:, place] = between
    return moved.float()


def _normal(z: Tensor) -> Tensor:
    """From the base distribution, a logistic, to a standard normal, elementwise."""
    out: Tensor = torch.special.ndtri(torch.sigmoid(z / STANDARD_SCALE).clamp(_TAIL, 1 - _TAIL))
    return out


def _logistic(u: Tensor) -> Tensor:
    """Back from a standard normal to the base distribution."""
    return torch.logit(torch.special.ndtr(u).clamp(_TAIL, 1 - _TAIL)) * STANDARD_SCALE


def _read(text: str, fitted: FittedModel) -> MolecularGraph:
    """The graph of a SMILES, its atoms in the order of the canonical SMILES."""
    (found,) = read_molecules([text], molecule_task(fitted))
    if isinstance(found, str):
        raise InputError(f"{text!r} cannot be used: {found}; give another molecule.")
    canonical = canonical_smiles(text.split()[0])
    (ordered,) = read_molecules([canonical or text], molecule_task(fitted))
    return found if isinstance(ordered, str) else ordered
