"""Commands for graph coloring: make the data, color a graph."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from catnf.cli.base import (
    AsJson,
    Device,
    app,
    check_archive_name,
    check_picture_name,
    chosen_device,
    data,
    messages,
    stopping,
)
from catnf.cli.numbers import a_seed, above_zero, within
from catnf.cli.progress import counting_bar
from catnf.errors import InputError

if TYPE_CHECKING:
    from catnf.coloring import ColoredGraph


@data.command("coloring")
def make_coloring(
    size: Annotated[Literal["small", "large"], typer.Option(help="10 to 20 or 25 to 50 nodes.")] = "small",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File; default: the data folder.")
    ] = None,
    colors: Annotated[int | None, typer.Option(help="Colors that a graph needs.", callback=within(2))] = None,
    smallest: Annotated[
        int | None, typer.Option(help="Nodes of the smallest graphs.", callback=within(1))
    ] = None,
    largest: Annotated[
        int | None, typer.Option(help="Nodes of the largest graphs.", callback=within(1))
    ] = None,
    lowest_density: Annotated[
        float | None, typer.Option(help="Smallest probability of an edge.", callback=within(0, 1))
    ] = None,
    highest_density: Annotated[
        float | None, typer.Option(help="Largest probability of an edge.", callback=within(0, 1))
    ] = None,
    counts: Annotated[
        tuple[int, int, int] | None,
        typer.Option(
            help="Graphs to train, validate and test with, for instance 20000 500 500.", callback=within(0)
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Another one gives other graphs.", callback=a_seed)] = 0,
    workers: Annotated[
        int | None, typer.Option(help="Processes, by default one per core.", callback=within(1))
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw random graphs and color them with OR-Tools; an interrupted run goes on where it stopped."""
    from catnf.tasks.coloring.data import FINGERPRINTS, PLANS, SOLVER, relative_path
    from catnf.tasks.coloring.generation import make_dataset
    from catnf.tasks.coloring.graphs import GraphSettings
    from catnf.tasks.files import data_folders

    if counts is not None and sum(counts) == 0:
        raise InputError("--counts are all 0; give at least one graph, for instance --counts 20000 500 500.")
    default = PLANS[size]
    usual = default.graphs
    graphs = GraphSettings(
        usual.smallest if smallest is None else smallest,
        usual.largest if largest is None else largest,
        usual.colors if colors is None else colors,
        usual.lowest_density if lowest_density is None else lowest_density,
        usual.highest_density if highest_density is None else highest_density,
    )
    plan = replace(default, graphs=graphs, counts=counts or default.counts, seed=seed)
    if plan != default and output is None:
        raise InputError("These are not the default graphs; name a file for them with -o graphs.npz.")
    path = output if output is not None else data_folders()[0] / relative_path(size)
    check_archive_name(path)
    with stopping("Stopped; the same command goes on from here."), counting_bar() as progress:
        bar = progress.add_task("Coloring graphs", total=sum(plan.counts))
        mark = make_dataset(path, plan, workers, lambda count: progress.update(bar, advance=count))
    if plan == default and mark != FINGERPRINTS.get(size, mark):
        messages.print(f"These are not the graphs of published figures, which OR-Tools {SOLVER} colored.")
    if as_json:
        print(json.dumps({"path": str(path), "fingerprint": mark, "graphs": sum(plan.counts)}))
    else:
        print(path)


@app.command()
def color(
    file: Annotated[Path, typer.Argument(help="DIMACS .col, a list of edges, or networkx node-link JSON.")],
    model: Annotated[
        str | None,
        typer.Option(help="A bundled model, a run's folder or a file."),
    ] = None,
    samples: Annotated[
        int, typer.Option("-n", "--samples", help="Colorings to try.", callback=within(1))
    ] = 16,
    colors: Annotated[
        int | None, typer.Option(help="Refuse models with another number of colors.", callback=within(1))
    ] = None,
    draw: Annotated[Path | None, typer.Option(help="PNG file to draw the coloring into.")] = None,
    temperature: Annotated[
        float,
        typer.Option(help="1 is the model itself; below it samples are more alike.", callback=above_zero),
    ] = 1.0,
    seed: Annotated[int, typer.Option(callback=a_seed)] = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Color a graph: the first valid coloring of several samples, or the best one with its conflicts."""
    from catnf.coloring import DEFAULT_MODEL, color_graph
    from catnf.fitted import bundled_names, load
    from catnf.tasks.coloring.files import read_graph

    if draw is not None:
        check_picture_name(draw)
    graph = read_graph(file)
    name = model if model is not None else DEFAULT_MODEL
    if model is None and name not in bundled_names():
        raise InputError(f"No model {name} is bundled yet; train one and give its folder with --model.")
    fitted = load(name, chosen_device(device))
    if colors is not None and colors != fitted.task.categories:
        raise InputError(
            f"{colors} colors were asked for, but {fitted.experiment.name} uses {fitted.task.categories}; "
            "train a model on graphs with that many."
        )
    outcome = color_graph(graph, fitted, samples, seed, temperature)
    _tell(outcome, as_json)
    if draw is not None:
        from catnf.tasks.coloring.drawing import draw_colorings

        draw_colorings(draw, {file.name: (graph, outcome.colors)}, seed, names=True)


def _tell(outcome: ColoredGraph, as_json: bool) -> None:
    if as_json:
        told = {
            "colors": {str(node): color for node, color in outcome.colors.items()},
            "conflicts": [[str(one), str(two)] for one, two in outcome.conflicts],
            "tried": outcome.tried,
            "valid": outcome.valid,
        }
        print(json.dumps(told))
        return
    for node, number in outcome.colors.items():
        print(f"{node}\t{number}")
    found = (
        f"A valid coloring; {outcome.valid} of {outcome.tried} samples are valid."
        if not outcome.conflicts
        else f"None of {outcome.tried} samples is valid; the best has {len(outcome.conflicts)} conflicts: "
        + ", ".join(f"{one}-{two}" for one, two in outcome.conflicts[:10])
    )
    messages.print(found)
