"""What can be asked of the models on the page, and what they answer, as JSON."""

from __future__ import annotations

import base64
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catnf.errors import InputError
from catnf.fitted import FittedModel
from catnf.studio.limits import Limits, check_between, check_seed
from catnf.tasks.molecules.vocabulary import MolecularGraph


@dataclass(frozen=True)
class MoleculesRequest:
    """Molecules to draw."""

    model: str
    count: int = 12
    temperature: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class PathRequest:
    """A walk between two molecules, given as SMILES."""

    model: str
    first: str
    second: str
    steps: int = 8
    seed: int = 0


@dataclass(frozen=True)
class GraphRequest:
    """A graph to color: names of nodes, and pairs of them."""

    nodes: list[str]
    edges: list[tuple[str, str]]
    samples: int = 16
    temperature: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class TextRequest:
    """A text to continue."""

    prompt: str
    symbols: int = 200
    temperature: float = 1.0
    seed: int = 0


def draw_molecules(model: FittedModel, asked: MoleculesRequest, limits: Limits) -> dict[str, Any]:
    """Samples with a picture each."""
    from catnf.molecules import sample_molecules

    check_between("count", asked.count, 1, limits.molecules)
    _check_drawing(asked.temperature, asked.seed, limits)
    drawn = sample_molecules(asked.count, model, asked.seed, asked.temperature)
    pictures = _pictures(model, [one.graph for one in drawn])
    told = [
        {"smiles": one.smiles, "valid": one.valid, "bits": one.bits_per_node, "picture": picture}
        for one, picture in zip(drawn, pictures, strict=True)
    ]
    return {"molecules": told, "valid": sum(one.valid for one in drawn)}


def walk(model: FittedModel, asked: PathRequest, limits: Limits) -> dict[str, Any]:
    """The molecules between two others."""
    from catnf.interpolation import interpolate_molecules

    check_between("steps", asked.steps, 2, limits.steps)
    check_seed(asked.seed)
    for name, smiles in (("first", asked.first), ("second", asked.second)):
        if not smiles.strip():
            raise InputError(f"The {name} molecule is empty; give a SMILES, for instance CCO.")
        if len(smiles) > limits.smiles:
            raise InputError(
                f"The {name} molecule has {len(smiles)} characters; give at most {limits.smiles}."
            )
    path = interpolate_molecules(asked.first.strip(), asked.second.strip(), model, asked.steps, asked.seed)
    pictures = _pictures(model, [step.graph for step in path])
    told = [
        {
            "smiles": step.smiles,
            "valid": step.valid,
            "share": step.share,
            "reached": step.reached,
            "picture": picture,
        }
        for step, picture in zip(path, pictures, strict=True)
    ]
    return {"steps": told, "valid": sum(step.valid for step in path)}


def color(model: FittedModel, asked: GraphRequest, limits: Limits) -> dict[str, Any]:
    """Colors of the nodes, and edges whose ends have the same."""
    from catnf.coloring import color_graph
    from catnf.tasks.coloring.files import networkx

    check_between("samples", asked.samples, 1, limits.colorings)
    _check_drawing(asked.temperature, asked.seed, limits)
    _check_graph(asked, limits)
    graph = networkx().Graph()
    graph.add_nodes_from(asked.nodes)
    graph.add_edges_from(asked.edges)
    found = color_graph(graph, model, asked.samples, asked.seed, asked.temperature)
    return {
        "colors": found.colors,
        "conflicts": found.conflicts,
        "tried": found.tried,
        "valid": found.valid,
    }


def continue_text(model: FittedModel, asked: TextRequest, limits: Limits) -> dict[str, Any]:
    """A text that starts with the given one."""
    from catnf.text import TextOptions, text_task, write_texts

    check_between("symbols", asked.symbols, 1, limits.symbols)
    _check_drawing(asked.temperature, asked.seed, limits)
    if not asked.prompt.strip():
        raise InputError("There is no text to continue; write at least one character.")
    if len(asked.prompt) > limits.prompt:
        raise InputError(f"The text has {len(asked.prompt)} characters; give at most {limits.prompt}.")
    known = len(text_task(model).vocabulary.encode(asked.prompt).codes)
    options = TextOptions(1, asked.prompt, known + asked.symbols, asked.temperature, asked.seed)
    written = write_texts(model, options)
    return {"text": written.texts[0], "notes": _notes(written.lowered, written.unknown)}


def _notes(lowered: Counter[str], unknown: Counter[str]) -> list[str]:
    """What of a text was taken otherwise than written."""
    notes = []
    if lowered:
        notes.append(f"Taken in lower case: {' '.join(sorted(lowered))}.")
    if unknown:
        notes.append(f"Unknown to the model: {' '.join(sorted(unknown))}.")
    return notes


def _check_drawing(temperature: float, seed: int, limits: Limits) -> None:
    check_between("temperature", temperature, limits.coldest, limits.hottest)
    check_seed(seed)


def _check_graph(asked: GraphRequest, limits: Limits) -> None:
    if not asked.nodes:
        raise InputError("The graph has no nodes; draw at least one.")
    if len(asked.nodes) > limits.nodes:
        raise InputError(f"The graph has {len(asked.nodes)} nodes; give at most {limits.nodes}.")
    if len(asked.edges) > limits.edges:
        raise InputError(f"The graph has {len(asked.edges):,} edges; give at most {limits.edges:,}.")
    twice = [name for name, times in Counter(asked.nodes).items() if times > 1]
    if twice:
        raise InputError(
            f"Node {twice[0][: limits.name]!r} is there twice; give every node a name of its own."
        )
    known = set(asked.nodes)
    for name in known:
        if not 0 < len(name) <= limits.name or not name.isprintable() or name != name.strip():
            raise InputError(
                f"{name[: limits.name]!r} cannot name a node; give 1 to {limits.name} letters or digits."
            )
    for one, two in asked.edges:
        if one not in known or two not in known:
            strange = one if one not in known else two
            raise InputError(f"An edge leads to {strange[: limits.name]!r}, which is no node; add the node.")


def _pictures(model: FittedModel, graphs: Sequence[MolecularGraph]) -> list[str]:
    """A picture of every graph, as an address that holds its bytes."""
    from catnf.sampling import molecule_task
    from catnf.tasks.molecules.drawing import draw_graphs

    vocabulary = molecule_task(model).vocabulary
    found = []
    with tempfile.TemporaryDirectory(prefix="catnf-studio-") as folder:
        for graph in graphs:
            file = draw_graphs(Path(folder) / "molecule.png", [graph], vocabulary)
            found.append("data:image/png;base64," + base64.b64encode(file.read_bytes()).decode())
    return found
