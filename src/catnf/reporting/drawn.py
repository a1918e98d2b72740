"""Pictures of what bundled models draw: molecules, their distributions, colorings."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from catnf.context import GraphContext
from catnf.fitted import FittedModel, load
from catnf.reference import Result
from catnf.tasks.coloring.data import PLANS, GraphColoring
from catnf.tasks.coloring.drawing import as_graph, draw_colorings
from catnf.tasks.coloring.files import networkx
from catnf.tasks.coloring.generation import DataPlan, make_dataset

if TYPE_CHECKING:
    import networkx as nx

    from catnf.molecules import SampledMolecule


@dataclass(frozen=True)
class Drawn:
    """A picture, and in words what is on it."""

    path: Path
    caption: str


def colored_graphs(path: Path, model: str, count: int = 32) -> Drawn:
    """Color the first test graphs of a bundled model's data, each once, and draw some of them."""
    networkx()  # refuses before any work where it is missing
    fitted = load(model)
    task = fitted.task
    assert isinstance(task, GraphColoring)
    plan = PLANS[task.size]
    file = path.with_suffix(".npz")
    make_dataset(file, DataPlan(plan.graphs, (1, 1, count), plan.seed), workers=1)
    ctx = GraphColoring(str(file), task.colors, task.nodes).evaluation_context("test", count)
    x = fitted.sample(count, seed=0, ctx=ctx)
    valid = task.valid(x, ctx)
    draw_examples(path, x, ctx, valid)
    share = f"{int(valid.sum())} of {count}"
    return Drawn(path, f"The bundled {model} colors {share} test graphs without a conflict at the first try.")


def draw_examples(path: Path, x: torch.Tensor, ctx: GraphContext, valid: torch.Tensor) -> None:
    """Draw three valid samples and, where there is one, a failure."""
    shown = [*valid.nonzero().flatten()[:3].tolist(), *(~valid).nonzero().flatten()[:1].tolist()]
    pictures: dict[str, tuple[nx.Graph, Mapping[Hashable, int]]] = {}
    for letter, index in zip("abcd", shown, strict=False):
        graph = as_graph(ctx, index)
        title = f"({letter}) {len(graph)} nodes, {'valid' if valid[index] else 'with conflicts'}"
        pictures[title] = (graph, dict(enumerate(x[index].tolist())))
    draw_colorings(path, pictures)


def molecule_grid(path: Path, model: FittedModel, molecules: Sequence[SampledMolecule]) -> Drawn:
    """Draw the first of some samples, and behind them failures of the others, at most five."""
    from catnf.sampling import molecule_task
    from catnf.tasks.molecules.drawing import draw_graphs

    wrong = [molecule for molecule in molecules[15:] if not molecule.valid][:5]
    shown = [*molecules[:15], *wrong]
    legends = [f"{one.bits_per_node:.2f} bits/atom" for one in shown]
    draw_graphs(path, [one.graph for one in shown], molecule_task(model).vocabulary, legends)
    valid = sum(one.valid for one in molecules)
    more = f" behind them {len(wrong)} of the others that are not valid;" if wrong else ""
    text = (
        f"{len(molecules)} molecules drawn from {model.experiment.name}, {valid} of them valid; the first "
        f"{min(15, len(molecules))} are shown,{more} atoms with too many bonds are on red, loose parts on "
        "other colors."
    )
    return Drawn(path, text)


def molecule_distributions(path: Path, result: Result) -> Drawn:
    """Draw stored distributions of samples beside the data's."""
    from catnf.tasks.molecules.distributions import Profile, draw_distributions

    profiles = {
        name: Profile(
            told["counts"],
            {value: np.array(some) for value, some in told["values"].items()},
            len(next(iter(told["values"].values()))),
        )
        for name, told in result["profiles"].items()
    }
    draw_distributions(path, profiles)
    n = result["n"]
    text = (
        f"Valid ones of {n['drawn']:,} samples of {result['experiment']} beside {n['data']:,} test molecules."
    )
    return Drawn(path, text)
