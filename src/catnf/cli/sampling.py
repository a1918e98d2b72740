"""Samples for people: molecules as a stream of lines, others as a table, and pictures."""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from torch import Tensor

from catnf.cli.base import check_output, check_picture_name, messages, stopping, typed_command
from catnf.cli.progress import counting_bar
from catnf.context import Context, GraphContext
from catnf.errors import InputError

if TYPE_CHECKING:
    from catnf.fitted import FittedModel
    from catnf.lines import LineFile
    from catnf.molecules import SampledMolecule
    from catnf.sampling import SamplingOptions

_HEADER = "smiles,valid,bits_per_node"
_MOST_MOLECULES = 40  # of a picture
_MOST_GRAPHS = 16


@dataclass(frozen=True)
class Outputs:
    """Where samples go."""

    file: Path | None  # instead of the screen
    grid: Path | None  # picture of the first ones
    as_json: bool  # one JSON object on the screen and nothing else
    graphs: Path | None = None  # plain graphs, instead of all others


@dataclass
class Tally:
    """What has been drawn so far."""

    written: int = 0  # molecules
    drawn: int = 0  # molecules that were drawn for them
    valid: int = 0  # of those that were drawn
    bits: float = 0.0  # per node, summed over those that are written


def write_molecules(fitted: FittedModel, options: SamplingOptions, outputs: Outputs) -> None:
    """Draw molecules and write them as they come.

    Of several processes that `torchrun` started each draws its part, into a file of its own.
    """
    from catnf.cli.molecules import need_rdkit
    from catnf.lines import LineFile

    options, outputs = _own_part(options, outputs)
    if outputs.graphs is not None:
        return _write_graphs(fitted, options, outputs.graphs, outputs.as_json)
    need_rdkit("write plain graphs with --graphs graphs.npz")
    tally, kept = Tally(), []
    with ExitStack() as stack:
        file = None if outputs.file is None else stack.enter_context(LineFile(outputs.file))
        try:
            kept = _stream(fitted, options, outputs, file, tally)
        except KeyboardInterrupt:
            messages.print(_stopped(file, tally))
            raise typer.Exit(130) from None
        except InputError as error:
            if file is None or not tally.written:
                raise
            raise InputError(f"{error} Those found are in {file.keep()}.") from error
        if file is not None:
            file.finish()
    _tell(options, outputs, tally, kept)
    if outputs.grid is not None:
        from catnf.sampling import molecule_task
        from catnf.tasks.molecules.drawing import draw_graphs

        shown = kept[:_MOST_MOLECULES]
        legends = [f"{molecule.bits_per_node:.2f} bits/atom" for molecule in shown]
        graphs = [molecule.graph for molecule in shown]
        draw_graphs(outputs.grid, graphs, molecule_task(fitted).vocabulary, legends)


def _write_graphs(fitted: FittedModel, options: SamplingOptions, path: Path, as_json: bool) -> None:
    """Draw graphs and write them when all are there."""
    from catnf.sampling import SampledGraphs
    from catnf.storage import make_folder

    make_folder(path.parent)  # before the work whose outcome goes there
    with stopping("Stopped; nothing is written."):
        with counting_bar(options.process > 0) as progress:
            bar = progress.add_task("Drawing graphs", total=options.count)
            drawn = SampledGraphs.draw(
                fitted, options, typed_command(), lambda count: progress.update(bar, advance=count)
            )
        drawn.save(path, fitted)
    seconds = drawn.about["seconds"]
    if as_json:
        told = {"n": len(drawn.archive), "graphs": str(path), "seconds": seconds, "seed": drawn.about["seed"]}
        print(json.dumps(told))
        return
    messages.print(f"{path}: {len(drawn.archive):,} graphs drawn in {seconds:.1f} s.")


def _stream(
    fitted: FittedModel, options: SamplingOptions, outputs: Outputs, file: LineFile | None, tally: Tally
) -> list[SampledMolecule]:
    """Draw and write; give back the first molecules, or all of them where they become one JSON object."""
    from catnf.molecules import stream_molecules

    whole = outputs.as_json and file is None
    kept: list[SampledMolecule] = []
    # On the screen a bar would run between the lines.
    with counting_bar(options.process > 0 or file is None) as progress:
        bar = progress.add_task("Drawing molecules", total=options.count)
        _put([_HEADER], file, whole)
        for chunk in stream_molecules(fitted, options):
            lines = [
                f"{molecule.smiles},{str(molecule.valid).lower()},{molecule.bits_per_node:.4f}"
                for molecule in chunk.molecules
            ]
            _put(lines, file, whole)
            tally.written += len(lines)
            tally.drawn += chunk.drawn
            tally.valid += chunk.valid
            tally.bits += sum(molecule.bits_per_node for molecule in chunk.molecules)
            kept += chunk.molecules if whole else chunk.molecules[: max(0, _MOST_MOLECULES - len(kept))]
            progress.update(bar, completed=tally.written)
    return kept


def _put(lines: list[str], file: LineFile | None, whole: bool) -> None:
    if file is not None:
        file.write(lines)
    elif lines and not whole:
        print("\n".join(lines), flush=True)


def _own_part(options: SamplingOptions, outputs: Outputs) -> tuple[SamplingOptions, Outputs]:
    """What this process does, of those that `torchrun` started; the first one draws the picture."""
    process, processes = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if processes == 1:
        return options, outputs
    if outputs.file is None and outputs.graphs is None:
        raise InputError(f"{processes} processes cannot share the screen; give a file with -o out.csv.")
    if options.count < processes:
        raise InputError(
            f"{options.count} samples are fewer than the {processes} processes; start fewer of them."
        )
    count = options.count // processes + (process < options.count % processes)

    def own(path: Path | None) -> Path | None:
        shard = f"-{process + 1:05d}-of-{processes:05d}"
        return None if path is None else path.with_name(f"{path.stem}{shard}{path.suffix}")

    grid = None if process else outputs.grid
    shard = replace(outputs, file=own(outputs.file), graphs=own(outputs.graphs), grid=grid)
    return replace(options, count=count, process=process), shard


def _stopped(file: LineFile | None, tally: Tally) -> str:
    if file is None or not tally.written:
        return "Stopped; nothing is written." if file is not None else "Stopped."
    return f"Stopped; the {tally.written:,} molecules that are complete are in {file.keep()}."


def _tell(options: SamplingOptions, outputs: Outputs, tally: Tally, kept: list[SampledMolecule]) -> None:
    metrics = {"validity": tally.valid / tally.drawn, "bits_per_node": tally.bits / tally.written}
    if outputs.as_json:
        told: dict[str, object] = {"n": tally.written, "drawn": tally.drawn, "metrics": metrics}
        told |= {"output": str(outputs.file)} if outputs.file else {"samples": [_plain(m) for m in kept]}
        print(json.dumps(told))
        return
    where = "" if outputs.file is None else f"{outputs.file}: "
    what = "largest fragments" if options.largest else "molecules"
    messages.print(
        f"{where}{tally.drawn:,} {what} drawn, {tally.valid:,} of them valid ({metrics['validity']:.1%})"
        + (f"; the first {tally.written:,} valid ones are given." if options.valid_only else ".")
    )
    messages.print(", ".join(f"{key} {value:.4f}" for key, value in metrics.items()))


def _plain(molecule: SampledMolecule) -> dict[str, object]:
    return {name: value for name, value in asdict(molecule).items() if name != "graph"}


def check_outputs(outputs: Outputs, chemistry: bool) -> None:
    """Refuse files whose names or combination mean nothing; `chemistry` is what looks at molecules."""
    if outputs.grid is not None:
        check_picture_name(outputs.grid)
    if outputs.graphs is None:
        return
    if outputs.graphs.suffix != ".npz":
        raise InputError(f"The file of graphs is {outputs.graphs}; give a name that ends in .npz.")
    check_output(outputs.graphs)
    if outputs.file is not None or outputs.grid is not None or chemistry:
        raise InputError(
            "--graphs gives plain graphs only; leave out -o, --grid, --largest and --valid-only."
        )


def check_plain_options(fitted: FittedModel, largest: bool, valid_only: bool, outputs: Outputs) -> None:
    """Refuse options that need molecules, or a picture, for a model that has none."""
    from catnf.tasks.coloring.data import GraphColoring

    named = {"--largest": largest, "--valid-only": valid_only, "--graphs": outputs.graphs is not None}
    for option, given in named.items():
        if given:
            raise InputError(
                f"{option} is for molecules, but {fitted.experiment.name} has none; leave it out."
            )
    if outputs.grid is not None and not isinstance(fitted.task, GraphColoring):
        raise InputError(
            f"--grid draws molecules and colorings, but {fitted.experiment.name} has neither; leave it out."
        )


def check_table_options(name: str, others: Mapping[str, bool], outputs: Outputs, temperature: float) -> None:
    """Refuse what means nothing for rows of a table: `others`, outputs, a temperature."""
    asked = {
        **others,
        "--grid": outputs.grid is not None,
        "--graphs": outputs.graphs is not None,
        "--temperature": temperature != 1.0,
    }
    for option, given in asked.items():
        if given:
            raise InputError(f"{option} is not for tables, which {name} is a model of; leave it out.")


def write_samples(
    fitted: FittedModel, count: int, seed: int | None, temperature: float, outputs: Outputs
) -> None:
    """Draw sets, colorings or rows of a task and write them as CSV, all at once."""
    from catnf.storage import write_text

    ctx = fitted.sample_context(count, seed)
    drawn = fitted.sample(count, seed, temperature, ctx=ctx)
    metrics = fitted.task.sample_metrics(drawn, ctx)
    header, rows = fitted.task.sample_rows(drawn, ctx)
    lines = [",".join(line) for line in (header, *rows)]
    file = outputs.file
    if file is not None:
        write_text(file, "\n".join(lines) + "\n")
    if outputs.grid is not None:
        _draw_colored(outputs.grid, drawn, ctx)
    if outputs.as_json:
        told: dict[str, object] = {"n": count, "metrics": metrics}
        print(json.dumps(told | ({"output": str(file)} if file else {"samples": drawn.tolist()})))
        return
    if file is None:
        print("\n".join(lines))
    messages.print(", ".join(f"{key} {value:.4f}" for key, value in metrics.items()))


def _draw_colored(path: Path, x: Tensor, ctx: Context) -> None:
    """Draw the first colored graphs of samples `x: [batch, nodes]`."""
    from catnf.tasks.coloring.data import conflicts
    from catnf.tasks.coloring.drawing import as_graph, draw_colorings

    assert isinstance(ctx, GraphContext)
    shown, few = x[:_MOST_GRAPHS], ctx.select(0, _MOST_GRAPHS)
    graphs: dict[str, tuple[Any, dict[Hashable, int]]] = {}
    for index, wrong in enumerate(conflicts(shown, few).tolist()):
        title = f"{index + 1}: " + (f"conflicts {wrong}" if wrong else "valid")
        graphs[title] = (as_graph(few, index), dict(enumerate(shown[index].tolist())))
    draw_colorings(path, graphs)
