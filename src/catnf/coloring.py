"""Coloring a graph with a trained model."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from catnf.context import GraphContext
from catnf.errors import InputError
from catnf.fitted import FittedModel, examples_at_once, load
from catnf.seeds import derived_seed
from catnf.tasks.coloring.data import GraphColoring, conflicts
from catnf.tasks.coloring.files import MOST_NODES

if TYPE_CHECKING:
    import networkx as nx

DEFAULT_MODEL = "coloring/large/graphcnf-rounds-slim"
"""The bundled model; it takes as many rounds as a graph needs, so that the graph may be of any size."""


@dataclass(frozen=True)
class ColoredGraph:
    """Colors for all nodes of a graph.

    Attributes:
        colors: of every node, from 0.
        conflicts: edges between nodes of one color; empty where the coloring is valid.
        tried: colorings that were sampled.
        valid: how many of them were valid.
    """

    colors: dict[Hashable, int]
    conflicts: list[tuple[Hashable, Hashable]]
    tried: int
    valid: int


def color_graph(
    graph: nx.Graph,
    model: str | Path | FittedModel | None = None,
    samples: int = 16,
    seed: int | None = 0,
    temperature: float = 1.0,
    device: torch.device | str = "cpu",
) -> ColoredGraph:
    """Sample colorings of a networkx graph and return the first valid one, or that with the fewest conflicts.

    Args:
        graph: undirected; directions and parallel edges are ignored.
        model: a trained model, its name or path; by default `DEFAULT_MODEL`.
        samples: colorings to draw, all at once where memory allows.
        seed: for the same colorings again.
        temperature: 1 is the model itself; below it samples are more alike.
        device: where to compute.
    """
    _check(graph, samples)
    nodes = list(graph.nodes)
    edges = {frozenset(edge): (edge[0], edge[1]) for edge in graph.edges()}.values()
    if not isinstance(model, FittedModel):
        model = load(model if model is not None else DEFAULT_MODEL, device)
    if not isinstance(model.task, GraphColoring):
        raise InputError(f"{model.experiment.name} does not color graphs; choose a model of coloring/...")
    place = {node: index for index, node in enumerate(nodes)}
    adjacency = torch.zeros(1, len(nodes), len(nodes), dtype=torch.bool)
    for one, two in edges:
        adjacency[0, place[one], place[two]] = adjacency[0, place[two], place[one]] = True
    ctx = GraphContext.of(adjacency)
    at_once = min(samples, examples_at_once(ctx))
    parts = []
    for start in range(0, samples, at_once):
        count = min(at_once, samples - start)
        own = derived_seed(seed, start) if seed is not None and start else seed
        parts.append(model.sample(count, own, temperature, chunk=count, ctx=ctx.repeat(count)))
    drawn = torch.cat(parts)
    wrong = torch.cat([conflicts(piece, ctx) for piece in torch.split(drawn, at_once)])
    best = drawn[int(wrong.argmin())].tolist()  # argmin gives the first of equals
    colors = {node: best[index] for node, index in place.items()}
    clashes = [(one, two) for one, two in edges if colors[one] == colors[two]]
    return ColoredGraph(colors, clashes, samples, int((wrong == 0).sum()))


def _check(graph: nx.Graph, samples: int) -> None:
    if samples < 1:
        raise InputError(f"samples is {samples}; give at least 1.")
    if len(graph) > MOST_NODES:
        raise InputError(
            f"The graph has {len(graph):,} nodes; all pairs are looked at, so give at most {MOST_NODES:,}."
        )
    if len(graph) == 0:
        raise InputError("The graph has no nodes; give one with at least one node.")
    loop: Any = next(((one, two) for one, two in graph.edges() if one == two), None)
    if loop is not None:
        raise InputError(f"Node {loop[0]!r} has an edge to itself, so that no coloring is valid; remove it.")
