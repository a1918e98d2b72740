"""Pictures of what coloring models do: example colorings, and validity against size and density.

python benchmarks/coloring_figures.py FOLDER MODEL [MODEL ...]

The first model's samples are drawn; all are compared. Graphs are those of the validation split.
"""

from __future__ import annotations

import sys
from pathlib import Path

import networkx as nx
import torch

from catnf.context import GraphContext
from catnf.fitted import load
from catnf.tasks.coloring.drawing import draw_colorings, draw_validity

GRAPHS = 4000


def as_graph(ctx: GraphContext, index: int) -> nx.Graph:
    """One graph of a context, without its padding."""
    assert ctx.mask is not None
    nodes = int(ctx.mask[index].sum())
    return nx.from_numpy_array(ctx.edges[index, :nodes, :nodes].numpy())


def main(folder: Path, names: list[str]) -> None:
    """Write `colorings.png` and `validity.png` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    valid = {}
    for name in names:
        fitted = load(name, "cuda" if torch.cuda.is_available() else "cpu")
        ctx = fitted.task.measured_context("validation", GRAPHS)
        assert isinstance(ctx, GraphContext)
        assert ctx.mask is not None
        x = fitted.sample(ctx.batch, seed=0, ctx=ctx)
        right = valid[fitted.experiment.name] = fitted.task.valid(x, ctx)
        if name == names[0]:
            good, bad = right.nonzero().flatten()[:3].tolist(), (~right).nonzero().flatten()[:1].tolist()
            shown = {
                f"{int(ctx.mask[i].sum())} nodes, {'valid' if right[i] else 'with conflicts'}": i
                for i in [*good, *bad]
            }
            pictures = {
                title: (as_graph(ctx, i), dict(enumerate(x[i].tolist()))) for title, i in shown.items()
            }
            draw_colorings(folder / "colorings.png", pictures)
    sizes = ctx.mask.sum(1)
    densities = ctx.edges.flatten(1).sum(1) / (sizes * (sizes - 1))
    draw_validity(folder / "validity.png", valid, sizes, densities)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
