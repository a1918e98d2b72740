"""Making data of molecules, for the command `data molecules` and on the way to a training."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import typer
from numpy.typing import NDArray

from catnf.cli.base import AsJson, check_archive_name, check_source, data, messages, stopping
from catnf.cli.numbers import within
from catnf.cli.progress import counting_bar, download_bars
from catnf.configuration import as_override
from catnf.errors import InputError, MissingDependencyError

if TYPE_CHECKING:
    from catnf.tasks.molecules.preparation import Kind, Summary
    from catnf.tasks.molecules.sources import Source


@data.command("molecules")
def make_molecules(
    source: Annotated[
        str,
        typer.Argument(
            help="zinc250k, moses, or a file of SMILES: .smi, .txt, .csv, .tsv, maybe .gz or .xz."
        ),
    ],
    vocabulary: Annotated[
        Literal["neutral", "charged"],
        typer.Option(help="Nine elements without charges, or all elements and charges of the data."),
    ] = "neutral",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="File; default: the data folder, or beside a file of SMILES."),
    ] = None,
    column: Annotated[str | None, typer.Option(help="Of a table; default: smiles.")] = None,
    shares: Annotated[
        tuple[float, float, float] | None,
        typer.Option(
            help="Parts of a file to train, validate and test with; default: 0.8 0.1 0.1.", callback=within(0)
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes, by default one per core.", callback=within(1))
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read molecules into a compact file; lines that cannot be used are listed beside it."""
    from catnf.tasks.molecules.preparation import refused_path
    from catnf.tasks.molecules.sources import FINGERPRINTS, NAMES, RDKIT

    check_source(source, NAMES)
    path = output if output is not None else _default_path(source, vocabulary)
    check_archive_name(path)
    started = time.monotonic()
    summary = _prepare(_open(source, column, shares), vocabulary, path, workers)
    if summary.fingerprint != FINGERPRINTS.get((source, vocabulary), summary.fingerprint):
        messages.print(f"These are not the molecules of published figures, which RDKit {RDKIT} read.")
    if as_json:
        told = {"path": str(path), "refused_path": str(refused_path(path)), "bytes": path.stat().st_size}
        print(json.dumps(told | asdict(summary)))
        return
    _tell(summary, path, refused_path(path), time.monotonic() - started)
    print(path)


def own_molecules(
    name: str, smiles: Path | None, vocabulary: Kind, column: str | None, quiet: bool
) -> tuple[str, list[str]]:
    """Make data of a user's molecules beside their file, unless they are there already.

    Args:
        name: an experiment with molecules, or `molecules` for the one of Zinc250k.
        smiles: the user's file.
        vocabulary: which atoms there are.
        column: of a table.
        quiet: say nothing.

    Returns:
        The experiment's name, and what to change in it to learn from these molecules.
    """
    from catnf.experiments import load_experiment
    from catnf.molecules import DEFAULT_MODEL
    from catnf.tasks.molecules import MoleculeTaskConfig
    from catnf.tasks.molecules.archive import MoleculeData
    from catnf.tasks.molecules.preparation import prepared_shares, refused_path

    if smiles is None:
        what = (
            "molecules is no experiment of its own"
            if name == "molecules"
            else "No file of molecules is named"
        )
        raise InputError(f"{what}; give molecules with --smiles mine.smi.")
    check_source(str(smiles))
    named = DEFAULT_MODEL if name == "molecules" else name
    if not isinstance(load_experiment(named).task, MoleculeTaskConfig):
        raise InputError(f"--smiles is for molecules, but {name} has none; train molecules instead.")
    started = time.monotonic()
    path = _default_path(str(smiles), vocabulary)
    source = _open(str(smiles), column, prepared_shares(path))
    summary = _prepare(source, vocabulary, path, None, quiet)
    if not quiet:
        _tell(summary, path, refused_path(path), time.monotonic() - started)
    atoms, bonds = (max(2, most) for most in summary.largest)
    archive = MoleculeData.load(path, ["train"]).splits["train"]
    values = {
        "name": f"molecules/{smiles.stem}-{vocabulary}",
        "task.source": str(path.resolve()),  # so that the run goes on from any folder
        "task.charges": vocabulary,
        "task.atoms": list(summary.atoms),
        "task.nodes": atoms,
        "task.bonds": bonds,
        "task.groups": size_groups(archive.sizes, atoms),
        "model.most_bonds": max(2, archive.most_bonds),
    }
    return named, [as_override(field, value) for field, value in values.items()]


def size_groups(sizes: NDArray[np.uint8], largest: int) -> list[int]:
    """Sizes up to which molecules are padded together: the quarters, where they are apart.

    >>> size_groups(np.array([10] * 5 + [20] * 5 + [21] * 5 + [38], dtype=np.uint8), 38)
    [10, 20, 21]
    """
    quarters = np.quantile(sizes, [0.25, 0.5, 0.75], method="higher").astype(int).tolist()
    return sorted({size for size in quarters if 2 <= size < largest})


def need_rdkit(instead: str) -> None:
    """Refuse in time where RDKit is missing, in one sentence that names what to do `instead`."""
    from catnf.tasks.molecules.chemistry import rdkit

    try:
        rdkit()
    except MissingDependencyError as error:
        raise MissingDependencyError(f"{str(error).rstrip('.')}, or {instead}.") from error


def _prepare(
    source: Source, vocabulary: Kind, path: Path, workers: int | None, quiet: bool = False
) -> Summary:
    from catnf.tasks.molecules.preparation import prepare

    with stopping(f"Stopped; {path} is not made."), counting_bar(quiet) as progress:
        bar = progress.add_task("Reading molecules", total=len(source))
        return prepare(source, vocabulary, path, workers, lambda count: progress.update(bar, advance=count))


def _default_path(source: str, vocabulary: str) -> Path:
    from catnf.tasks.files import data_folders
    from catnf.tasks.molecules.sources import NAMES, relative_path

    if source in NAMES:
        return data_folders()[0] / relative_path(source, vocabulary)
    file = Path(source)
    return file.with_name(f"{file.name}-{vocabulary}.npz")  # files may differ in any part of their names


def _open(source: str, column: str | None, shares: tuple[float, float, float] | None) -> Source:
    """The SMILES, with a bar for every file that has to be downloaded."""
    from catnf.tasks.molecules.sources import open_source

    with download_bars() as show:
        return open_source(source, column, shares, show)


def _tell(summary: Summary, path: Path, refused: Path, seconds: float) -> None:
    for name, count in summary.counts.items():
        unlike = count - summary.valid[name]
        note = f", {unlike:,} of them not valid without charges" if unlike else ""
        altered = summary.altered[name]
        note += f", {altered:,} with other hydrogens than written" if altered else ""
        messages.print(f"{name}: {count:,} molecules{note}")
        for reason, times in sorted(summary.refused[name].items(), key=lambda pair: -pair[1]):
            messages.print(f"  not used: {times:,} ({reason})")
    atoms, bonds = summary.largest
    messages.print(f"Atoms {' '.join(summary.atoms)}; at most {atoms} atoms and {bonds} bonds in a molecule.")
    messages.print(f"Split: {summary.rule}.")
    if any(summary.refused.values()):
        messages.print(f"Lines that are not used: {refused}")
    messages.print(f"{path.stat().st_size:,} bytes in {seconds:.0f} s.")
