"""Commands that look at what is given: score, interpolate."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catnf.cli.base import (
    AsJson,
    Device,
    app,
    as_csv,
    check_lines_name,
    check_not_input,
    check_picture_name,
    chosen_device,
    messages,
    stopping,
)
from catnf.cli.numbers import a_seed, within
from catnf.cli.progress import counting_bar
from catnf.errors import InputError

if TYPE_CHECKING:
    from catnf.fitted import FittedModel
    from catnf.molecules import ScoredMolecule

_MOST_LISTED = 20  # lines that are not used, on the screen

Line = tuple[int, "ScoredMolecule"]  # a molecule with its number of a line

Model = Annotated[str | None, typer.Option(help="A bundled model, a run's folder or a file.")]


@app.command()
def score(
    operands: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="SMILES (.smi, .txt, .csv, .tsv, maybe .gz or .xz), a table (.csv, .tsv, .parquet), or "
            "UTF-8 texts, one in a line; a model before it is the same as --model.",
        ),
    ],
    model: Model = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="CSV instead of the screen; of tables also .tsv or .parquet."),
    ] = None,
    column: Annotated[str | None, typer.Option(help="Of a table; default: smiles.")] = None,
    samples: Annotated[
        int, typer.Option(help="Draws of the bound for each; more tighten it.", callback=within(1))
    ] = 10,
    seed: Annotated[int, typer.Option(callback=a_seed)] = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Tell how likely molecules, rows of a table or texts are, the most unusual first.

    Lines that are no molecules are listed.
    """
    from catnf.fitted import is_table_model, load
    from catnf.tasks.text import Text

    file, model = _file_and_model(operands, model)
    check_not_input(output, file)
    if model is not None and is_table_model(model):
        from catnf.cli.tables import score_rows

        if column is not None:
            raise InputError(f"--column is for molecules, but {model} is of a table; leave it out.")
        return score_rows(model, file, output, samples, seed, as_json)
    check_lines_name(output)
    given = load(model, chosen_device(device)) if model is not None else None
    if given is not None and isinstance(given.task, Text):
        from catnf.cli.text import score_lines

        if column is not None:
            raise InputError(f"--column is for molecules, but {model} is of texts; leave it out.")
        return score_lines(given, file, output, samples, seed, as_json)
    # Only now, because rows are scored without RDKit.
    from catnf.molecules import molecule_model

    fitted = molecule_model(given, chosen_device(device))
    try:
        lines = _scored(fitted, file, column, samples, seed)
    except InputError as error:
        if model is not None or not file.name.lower().endswith((".csv", ".tsv", ".parquet")):
            raise
        other = f"or, if these are no molecules, put the model that `catnf fit` made before {file}."
        raise InputError(f"{str(error).rstrip('.')}, {other}") from error
    used = sorted((line for line in lines if not line[1].problem), key=lambda line: -line[1].bits_per_node)
    refused = [line for line in lines if line[1].problem]
    if not used:
        number, worst = refused[0]
        raise InputError(
            f"{file} has no molecule that can be scored; the first is on line {number}: {worst.problem}."
        )
    _give(used, refused, output, as_json)


@app.command()
def interpolate(
    first: Annotated[str, typer.Argument(help="SMILES where the path begins.")],
    second: Annotated[str, typer.Argument(help="SMILES where it ends.")],
    model: Model = None,
    steps: Annotated[
        int, typer.Option(help="Molecules on the path, both ends among them.", callback=within(2))
    ] = 8,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="PNG file to draw them into.")] = None,
    seed: Annotated[int, typer.Option(help="Another one gives another path.", callback=a_seed)] = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Walk from one molecule to another through the model's latent space."""
    from catnf.interpolation import interpolate_molecules
    from catnf.molecules import molecule_model
    from catnf.sampling import molecule_task
    from catnf.tasks.molecules.drawing import draw_graphs

    if output is not None:
        check_picture_name(output)
    fitted = molecule_model(model, chosen_device(device))
    path = interpolate_molecules(first, second, fitted, steps, seed)
    if as_json:
        told = [{"share": s.share, "smiles": s.smiles, "valid": s.valid, "reached": s.reached} for s in path]
        print(json.dumps({"path": told, "valid": sum(s.valid for s in path)}))
    else:
        for step in path:
            print(f"{step.share:.3f}\t{step.smiles}\t{'valid' if step.valid else 'not valid'}")
        messages.print(f"{sum(step.valid for step in path)} of {len(path)} are valid.")
        if not all(step.reached for step in path):
            messages.print("An end does not come back from its latents as it was; train the model longer.")
    if output is not None:
        legends = [f"{step.share:.0%}" for step in path]
        draw_graphs(output, [s.graph for s in path], molecule_task(fitted).vocabulary, legends, columns=4)


def _file_and_model(operands: list[str], model: str | None) -> tuple[Path, str | None]:
    """The file, and the model where one is named, which may stand before the file or behind --model."""
    *before, file = operands
    if len(before) > 1:
        raise InputError(f"{file} is more than a model and a file; leave it out.")
    if before and model is not None:
        raise InputError(f"The model is given twice, {before[0]} and --model {model}; leave one out.")
    return Path(file), before[0] if before else model


def _scored(fitted: FittedModel, file: Path, column: str | None, samples: int, seed: int) -> list[Line]:
    """All molecules of a file, in its order."""
    from catnf.molecules import score_molecules
    from catnf.tasks.cores import available_cores
    from catnf.tasks.molecules.files import read_smiles_file

    rows = read_smiles_file(file, column)
    with stopping("Stopped; nothing is written."), counting_bar() as progress:
        bar = progress.add_task("Scoring molecules", total=len(rows.smiles))
        scored = score_molecules(
            rows.smiles,
            fitted,
            samples,
            seed,
            progress=lambda count: progress.update(bar, advance=count),
            workers=available_cores(),
        )
    return list(zip(rows.lines.tolist(), scored, strict=True))


def _give(used: list[Line], refused: list[Line], output: Path | None, as_json: bool) -> None:
    """Write or print the scores, and tell of the lines that are not used."""
    from catnf.storage import write_text
    from catnf.tasks.molecules.preparation import refused_path

    if output is not None:
        write_text(output, _table(used))
        if refused:
            write_text(refused_path(output), _refused_table(refused))
    elif not as_json:
        print(_table(used), end="")
    if as_json:
        print(json.dumps(_summary(used, refused, output)))
        return
    _list_refused(refused)
    if refused and output is not None:
        messages.print(f"Lines that are not used: {refused_path(output)}")
    mean = sum(molecule.bits_per_node for _, molecule in used) / len(used)
    messages.print(
        f"{len(used):,} molecules scored, {len(refused):,} lines not used; bits per node from "
        f"{used[-1][1].bits_per_node:.3f} to {used[0][1].bits_per_node:.3f}, {mean:.3f} on average."
    )


def _table(used: list[Line]) -> str:
    rows = [
        [number, molecule.smiles, f"{molecule.log_likelihood:.4f}", f"{molecule.bits_per_node:.4f}"]
        for number, molecule in used
    ]
    return as_csv(["line", "smiles", "log_likelihood", "bits_per_node"], rows)


def _refused_table(refused: list[Line]) -> str:
    rows = [[number, molecule.problem, molecule.smiles] for number, molecule in refused]
    return as_csv(["line", "reason", "smiles"], rows)


def _list_refused(refused: list[Line]) -> None:
    for number, molecule in refused[:_MOST_LISTED]:
        messages.print(f"line {number} is not used: {molecule.smiles[:60]!r}: {molecule.problem}")
    if len(refused) > _MOST_LISTED:
        messages.print(f"... and {len(refused) - _MOST_LISTED:,} more")


def _summary(used: list[Line], refused: list[Line], output: Path | None) -> dict[str, object]:
    told: dict[str, object] = {
        "scored": len(used),
        "bits_per_node": sum(molecule.bits_per_node for _, molecule in used) / len(used),
        "refused": [{"line": n, "smiles": m.smiles, "reason": m.problem} for n, m in refused],
    }
    if output is not None:
        return told | {"output": str(output)}
    keys = ("smiles", "log_likelihood", "bits_per_node")
    return told | {"molecules": [{"line": n, **{k: asdict(m)[k] for k in keys}} for n, m in used]}
