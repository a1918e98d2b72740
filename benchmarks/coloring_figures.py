"""Pictures of what coloring models do: example colorings, and validity against size and density.

python benchmarks/coloring_figures.py FOLDER MODEL [MODEL ...] [--graphs 4000]

The first model's samples are drawn; all are compared. Graphs are those of the test split.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from catnf.context import GraphContext
from catnf.fitted import load
from catnf.reporting.drawn import draw_examples
from catnf.tasks.coloring.drawing import draw_validity


def main(folder: Path, names: list[str], graphs: int) -> None:
    """Write `colorings.png` and `validity.png` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    valid = {}
    first: GraphContext | None = None
    for name in names:
        fitted = load(name, "cuda" if torch.cuda.is_available() else "cpu")
        ctx = fitted.task.measured_context("test", graphs)
        assert isinstance(ctx, GraphContext)
        x = fitted.sample(ctx.batch, seed=0, ctx=ctx)
        valid[fitted.experiment.name] = fitted.task.valid(x, ctx)
        if first is None:
            first = ctx
            draw_examples(folder / "colorings.png", x, ctx, valid[fitted.experiment.name])
        elif not torch.equal(first.edges, ctx.edges):
            raise SystemExit(
                f"{name} was trained on other graphs than {names[0]}; compare models of one set."
            )
    assert first is not None
    sizes = first.counts(torch.zeros(1))
    densities = first.edges.flatten(1).sum(1) / (sizes * (sizes - 1))
    draw_validity(folder / "validity.png", valid, sizes, densities)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--graphs", type=int, default=4000, help="of the test split")
    given = parser.parse_args()
    main(given.folder, given.models, given.graphs)
