"""The page of the whole project: every table, and pictures of what the models learn and draw."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from catnf import __version__
from catnf.coloring import DEFAULT_MODEL as COLORING
from catnf.errors import CatnfError, InputError
from catnf.fitted import load
from catnf.provenance import hardware, revision
from catnf.reference import Paper, Results, load_paper
from catnf.reporting.curves import draw_curves, loss_caption, read_losses, stored_curves
from catnf.reporting.drawn import colored_graphs, molecule_distributions, molecule_grid
from catnf.reporting.encodings import KINDS, draw_encoding, train_tiny
from catnf.reporting.page import Section, document, paragraphs, picture, table
from catnf.reporting.sections import (
    TITLES,
    distance_table,
    headline_section,
    paper_section,
    speed_section,
    tools_section,
)
from catnf.storage import write_text
from catnf.training.checkpoint import LOSSES

if TYPE_CHECKING:
    from catnf.molecules import SampledMolecule

_MOST_CURVES = 5  # in one picture

Tell = Callable[[str], None]


@dataclass(frozen=True)
class ReportOptions:
    """What the report is made of.

    Attributes:
        results: figures measured earlier.
        paper: the paper's.
        runs: folders below which loss records are looked for.
        encodings: those of `KINDS` that are trained and drawn.
        steps: of these tiny trainings.
        seconds: that each of them takes at most.
        molecules: to draw.
        graphs: to color.
        drawn: molecules of the bundled model that are there already.
        mixture: a run with two latent channels and the mixture encoding that is there already.
        first: a section to begin with.
    """

    results: Results = field(default_factory=Results.bundled)
    paper: Paper = field(default_factory=load_paper)
    runs: Sequence[Path] = ()
    encodings: Sequence[str] = tuple(KINDS)
    steps: int = 200
    seconds: float = 15.0
    molecules: int = 128
    graphs: int = 32
    drawn: Sequence[SampledMolecule] = ()
    mixture: Path | None = None
    first: Section | None = None

    def __post_init__(self) -> None:
        for name in ("steps", "molecules", "graphs"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; give at least 1.")
        for folder in self.runs:
            if not folder.is_dir():
                raise InputError(f"There is no folder {folder}; give one of runs, or leave --runs out.")


def write_report(path: Path, options: ReportOptions, tell: Tell = lambda text: None) -> list[str]:
    """Write the page, and return a sentence for everything that had to be left out."""
    sections = [options.first] if options.first else []
    left_out: list[str] = []

    def add(title: str, make: Callable[[], Section]) -> None:
        try:
            sections.append(make())
        except CatnfError as error:
            left_out.append(f"{title}: {error}")
        except KeyError as error:
            left_out.append(f"{title}: There is no result {error.args[0]}.")

    results, paper = options.results, options.paper
    with TemporaryDirectory() as name:
        folder = Path(name)
        add("In short", lambda: headline_section(results, paper))
        add(TITLES["sets"], lambda: paper_section("sets", results, paper))
        tell("Training tiny flows to draw their encodings ...")
        trained: dict[str, Path] = {}
        add("Encodings", lambda: _encodings(folder, options, trained))
        add("Loss curves", lambda: _curves(folder, options, trained))
        add(TITLES["coloring"], lambda: paper_section("coloring", results, paper))
        tell("Coloring graphs ...")
        add("A picture of colorings", lambda: _colorings(folder, options))
        add(TITLES["molecules"], lambda: paper_section("molecules", results, paper))
        tell("Drawing molecules ...")
        add("A picture of molecules", lambda: _molecules(folder, options))
        add("Distributions of molecules", lambda: _distributions(folder, results))
        add(TITLES["text"], lambda: paper_section("text", results, paper))
        add("Written texts", _texts)
        add(TITLES["credit"], lambda: paper_section("credit", results, paper))
        add("Tables of one's own", lambda: tools_section(results))
        add("Speed", lambda: speed_section(results))
    if left_out:
        sections.append(Section("left-out", "Left out", paragraphs(*left_out)))
    intro = [
        "Normalizing flows on categorical data: categories are encoded as regions of a continuous space, "
        "learned together with a flow that models everything between them.",
        f"Figures of the paper are from {paper.source}. Ours are in results/, each with its seed, hardware, "
        "revision and command; what nobody measured is called so.",
        f"Pictures were made by catnf {__version__} ({revision()}) on {hardware()}.",
    ]
    write_text(path, document("catnf, the whole project on one page", intro, sections))
    return left_out


def _encodings(folder: Path, options: ReportOptions, trained: dict[str, Path]) -> Section:
    if not options.encodings:
        raise InputError("None are asked for.")
    parts = [
        paragraphs(
            "Small flows that shuffle a few categories, trained just now. Left: where every category "
            "lives in the two latent channels. Right: the category that the decoder reads at every "
            "point; inside the lines it is more than 95 % sure. The decoder of Latent NF sees whole sets, so "
            "that its probabilities are averaged over a few sets that an element could belong to."
        )
    ]
    for kind in options.encodings:
        words = KINDS[kind]
        there = options.mixture if kind == "mixture" else None
        trained[words] = there or train_tiny(kind, folder, options.steps, options.seconds)
        image = draw_encoding(folder / f"encoding-{kind}.png", trained[words], words)
        parts.append(
            picture(image, f"{words}: densities of categories and the decoder's partition", wide=True)
        )
    return Section("encodings", "Encodings", "\n".join(parts))


def _curves(folder: Path, options: ReportOptions, trained: Mapping[str, Path]) -> Section:
    parts = []
    if trained:
        curves = {name: read_losses(run) for name, run in trained.items()}
        image = draw_curves(folder / "curves.png", curves, "bits per variable")
        parts.append(picture(image, "loss curves of tiny flows", "The flows above.", wide=True))
    for name, stored in options.results.items():
        kind, _, text = name.partition("/")
        if kind == "losses":
            image = draw_curves(folder / f"curves-{text}.png", stored_curves(stored))
            alt = f"loss curves of flows and of a language model on {text}"
            parts.append(picture(image, alt, loss_caption(stored), wide=True))
    for place in options.runs:
        found = sorted(file.parent for file in place.rglob(LOSSES))
        for start in range(0, len(found), _MOST_CURVES):
            runs = found[start : start + _MOST_CURVES]
            some = {str(run.relative_to(place)): read_losses(run) for run in runs}
            image = draw_curves(folder / f"curves-{len(parts)}.png", some)
            parts.append(picture(image, f"loss curves of {', '.join(some)}", f"Runs of {place}.", wide=True))
    if not parts:
        raise InputError("There are no loss records; give folders of runs with --runs.")
    return Section("losses", "Loss curves", "\n".join(parts))


def _colorings(folder: Path, options: ReportOptions) -> Section:
    drawn = colored_graphs(folder / "colorings.png", COLORING, options.graphs)
    alt = "colored graphs, conflicts in red"
    return Section("colorings", "Colored graphs", picture(drawn.path, alt, drawn.caption, wide=True))


def _molecules(folder: Path, options: ReportOptions) -> Section:
    from catnf.molecules import DEFAULT_MODEL, sample_molecules
    from catnf.tasks.molecules.chemistry import rdkit

    rdkit()  # refuses before any work where it is missing
    model = load(DEFAULT_MODEL)
    molecules = options.drawn or sample_molecules(options.molecules, model)
    drawn = molecule_grid(folder / "molecules.png", model, molecules)
    body = picture(drawn.path, "a grid of molecules, failures marked", drawn.caption, wide=True)
    return Section("drawn-molecules", "Drawn molecules", body)


def _distributions(folder: Path, results: Results) -> Section:
    parts = []
    for data, title in (("zinc250k", "Zinc250k"), ("moses", "MOSES")):
        stored = results.get(f"distributions/{data}")
        distances = distance_table(results, f"molecules/{data}")
        if stored is None and distances is None:
            continue
        parts.append(f"<h3>{html.escape(title)}</h3>")
        if stored is not None:
            drawn = molecule_distributions(folder / f"distributions-{data}.png", stored)
            parts.append(picture(drawn.path, f"distributions of {title}", drawn.caption, wide=True))
        if distances is not None:
            parts.append(table(distances))
    if not parts:
        raise InputError("Nobody measured any.")
    return Section("distributions", "Distributions beside the data's", "\n".join(parts))


def _texts() -> Section:
    from catnf.text import DEFAULT_MODEL, sample_texts

    told = f"The first texts that {DEFAULT_MODEL} writes, with nothing given and after the same beginning."
    parts = [paragraphs(told)]
    for prompt in (None, "the history of"):
        written = sample_texts(3, prompt=prompt, seed=0)
        parts += [f"<blockquote>{html.escape(text)}</blockquote>" for text in written]
    return Section("texts", "Written texts", "\n".join(parts))
