"""Pictures of colored graphs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from catnf.drawing import make_figure, save_figure
from catnf.tasks.coloring.files import networkx

if TYPE_CHECKING:
    import networkx as nx

PALETTE = ("#4477aa", "#eeb33b", "#228833", "#aa3377", "#66ccee", "#bbbbbb", "#994455", "#004488")
CONFLICT = "#dd1111"


def draw_colorings(
    path: Path, graphs: Mapping[str, tuple[nx.Graph, Mapping[Hashable, int]]], seed: int = 0
) -> None:
    """Draw graphs side by side under their titles, edges between nodes of one color in red."""
    nx = networkx()
    columns = min(4, len(graphs))
    rows = -(-len(graphs) // columns)
    figure = make_figure(4.0 * columns, 4.2 * rows)
    for index, (title, (graph, colors)) in enumerate(graphs.items(), 1):
        axes = figure.add_subplot(rows, columns, index)
        place = nx.spring_layout(graph, seed=seed, k=2.0 / max(1, len(graph)) ** 0.5)
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
        axes.set_title(title)
        axes.axis("off")
    save_figure(figure, path)
