"""Pictures of colored graphs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from catnf.context import GraphContext
from catnf.drawing import make_figure, save_figure
from catnf.tasks.coloring.files import networkx

if TYPE_CHECKING:
    import networkx as nx

PALETTE = ("#4477aa", "#eeb33b", "#228833", "#aa3377", "#66ccee", "#bbbbbb", "#994455", "#004488")
CONFLICT = "#dd1111"
_MOST_NAMED = 60  # nodes; more names than that cover one another


def draw_colorings(
    path: Path,
    graphs: Mapping[str, tuple[nx.Graph, Mapping[Hashable, int]]],
    seed: int = 0,
    names: bool = False,
) -> None:
    """Draw graphs side by side under their titles, edges between nodes of one color in red.

    With `names` the nodes of graphs that are small enough to read them are named.
    """
    nx = networkx()
    columns = min(4, len(graphs))
    rows = -(-len(graphs) // columns)
    figure = make_figure(4.0 * columns, 4.2 * rows)
    for index, (title, (graph, colors)) in enumerate(graphs.items(), 1):
        axes = figure.add_subplot(rows, columns, index)
        # Forces, because the method for large graphs needs scipy.
        place = nx.spring_layout(graph, seed=seed, k=2.0 / max(1, len(graph)) ** 0.5, method="force")
        wrong = [(one, two) for one, two in graph.edges() if colors[one] == colors[two]]
        right = [(one, two) for one, two in graph.edges() if colors[one] != colors[two]]
        nx.draw_networkx_edges(graph, place, right, ax=axes, edge_color="#999999")
        nx.draw_networkx_edges(graph, place, wrong, ax=axes, edge_color=CONFLICT, width=3.0)
        fill = [PALETTE[colors[node] % len(PALETTE)] for node in graph.nodes]
        nx.draw_networkx_nodes(
            graph,
            place,
            ax=axes,
            node_color=fill,
            edgecolors="#333333",
            node_size=max(60, 4000 // len(graph)),
        )
        if names and len(graph) <= _MOST_NAMED:
            size = 10.0 if len(graph) <= _MOST_NAMED // 2 else 7.0
            for text in nx.draw_networkx_labels(graph, place, ax=axes, font_size=size).values():
                text.set_parse_math(False)
        axes.set_title(title, parse_math=False)
        axes.axis("off")
    save_figure(figure, path)


def as_graph(ctx: GraphContext, index: int) -> nx.Graph:
    """One graph of a context on the CPU, without its padding."""
    nodes = int(ctx.real(ctx.edges)[index].sum())
    return networkx().from_numpy_array(ctx.edges[index, :nodes, :nodes].numpy())


def draw_validity(
    path: Path, valid: Mapping[str, Tensor], sizes: Tensor, densities: Tensor, bins: int = 8
) -> None:
    """Plot the share of valid colorings of several models against the size and the density of graphs.

    Args:
        path: PNG file.
        valid: for every model, which graphs it colored right, `[graphs]`.
        sizes: nodes of the graphs, `[graphs]`.
        densities: share of pairs of nodes that are edges, `[graphs]`.
        bins: intervals that sizes and densities are put into, with about equally many graphs in each.
    """
    figure = make_figure(10.0, 4.0)
    for index, (name, values) in enumerate((("nodes", sizes), ("density", densities)), 1):
        axes = figure.add_subplot(1, 2, index)
        edges = torch.quantile(values.double(), torch.linspace(0, 1, bins + 1, dtype=torch.float64))
        edges = torch.unique(edges)
        place = torch.bucketize(values.double(), edges[1:-1].contiguous(), right=True)
        used = [b for b in range(len(edges) - 1) if bool((place == b).any())]
        for model, right in valid.items():
            middles = [float(values[place == b].double().mean()) for b in used]
            axes.plot(
                middles, [float(right[place == b].double().mean()) for b in used], marker="o", label=model
            )
        axes.set_xlabel(name)
        axes.set_ylabel("valid colorings")
        axes.set_ylim(0.0, 1.02)
        axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    save_figure(figure, path)
