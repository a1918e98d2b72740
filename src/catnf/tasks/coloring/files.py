"""Reading a user's graph."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catnf.errors import InputError, MissingDependencyError, StorageError

if TYPE_CHECKING:
    import networkx as nx

MOST_NODES = 5_000
"""Of a graph to color: a matrix of all pairs for every attention head still fits into memory."""
_DIMACS = re.compile(r"p\s+(edge|edges|col)\s+\d+")
_HEADERS = (["source", "target"], ["from", "to"])  # first lines of tables that other programs write


def read_graph(path: Path) -> nx.Graph:
    """A graph from a DIMACS `.col` file, node-link JSON as networkx writes it, or a list of edges.

    A list of edges has two names of nodes in a line, separated by blanks or a comma; further words, such as
    weights, are ignored, `#` starts a comment, and a first line `source,target` or `from,to` is a header.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text; give a DIMACS, JSON or edge list file.") from error
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}; give the path of a graph.") from error
    if path.suffix.lower() == ".json" or text.lstrip().startswith(("{", "[")):
        return _from_json(text, path)
    lines = [line.split("#", 1)[0].strip() for line in text.splitlines()]
    is_dimacs = path.suffix.lower() == ".col" or any(_DIMACS.match(line) for line in lines)
    return _from_dimacs(lines, path) if is_dimacs else _from_edges(lines, path)


def _from_json(text: str, path: Path) -> nx.Graph:
    nx = networkx()
    try:
        values = json.loads(text)
        edges = "edges" if "edges" in values else "links"
        return nx.Graph(nx.node_link_graph(values, edges=edges))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, nx.NetworkXError) as error:
        raise InputError(
            f"{path} is not a graph in networkx' node-link JSON; write it with node_link_data."
        ) from error


def _from_dimacs(lines: list[str], path: Path) -> nx.Graph:
    graph = networkx().Graph()
    nodes: int | None = None
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0] in ("c", "n", "d", "v", "x"):  # comments and what geometry adds
            continue
        try:
            if words[0] == "p":
                nodes = int(words[2])
                if not 1 <= nodes <= MOST_NODES:
                    raise InputError(f"{path}, line {number}: {nodes} nodes; give 1 to {MOST_NODES:,}.")
                graph.add_nodes_from(range(1, nodes + 1))
            elif words[0] == "e" and nodes is not None:
                one, two = int(words[1]), int(words[2])
                if not (1 <= one <= nodes and 1 <= two <= nodes):
                    raise InputError(f"{path}, line {number}: edge {one} {two}, but only {nodes} nodes.")
                graph.add_edge(one, two)
            else:
                raise ValueError
        except (ValueError, IndexError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"{path}, line {number}: {line!r} is not DIMACS; write 'p edge NODES EDGES', then 'e 1 2'."
            ) from error
    if nodes is None:
        raise InputError(f"{path} has no line 'p edge NODES EDGES'; a DIMACS file starts with one.")
    return graph


def _from_edges(lines: list[str], path: Path) -> nx.Graph:
    graph = networkx().Graph()
    for number, line in enumerate(lines, 1):
        words = line.replace(",", " ").split()
        if not words or (not graph and [word.lower() for word in words[:2]] in _HEADERS):
            continue
        if len(words) < 2:
            raise InputError(
                f"{path}, line {number}: {line!r} is not an edge; write two names of nodes in a line."
            )
        graph.add_edge(words[0], words[1])  # more words are weights
    return graph


def networkx() -> Any:
    """The package, or one sentence that names what to install."""
    try:
        import networkx as nx
    except ImportError as error:
        raise MissingDependencyError(
            "Graphs from files need networkx; install it with pip install 'catnf[coloring]'."
        ) from error
    return nx
