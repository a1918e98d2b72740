"""Random graphs that need all of a number of colors, each with one coloring.

As in the paper: sizes are uniform, every pair of nodes is an edge with a probability drawn for the graph,
graphs are connected, and OR-Tools' CP-SAT finds the coloring. An example depends on its seed, split and
index alone, so that many processes make the same data as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from catnf.errors import InputError, MissingDependencyError

Adjacency = NDArray[np.bool_]
"""`[nodes, nodes]`, symmetric, false on the diagonal."""


@dataclass(frozen=True)
class GraphSettings:
    """Which graphs to draw; the defaults are those of the paper's small set."""

    smallest: int = 10  # nodes
    largest: int = 20
    colors: int = 3
    lowest_density: float = 0.1  # probability of an edge
    highest_density: float = 0.3

    def __post_init__(self) -> None:
        if not 2 <= self.smallest <= self.largest <= 255:
            raise InputError(
                f"Sizes go from {self.smallest} to {self.largest}; give 2 to 255 nodes, the smaller first."
            )
        if not 2 <= self.colors <= min(self.smallest, 64):
            raise InputError(
                f"colors is {self.colors}; give 2 to 64, and no more than the {self.smallest} nodes of the "
                "smallest graph."
            )
        if not 0.0 < self.lowest_density <= self.highest_density <= 1.0:
            raise InputError(
                f"Densities go from {self.lowest_density} to {self.highest_density}; give probabilities "
                "above 0 and at most 1, the lower first."
            )


class Coloring(NamedTuple):
    """A graph and one of its colorings.

    Attributes:
        adjacency: `[nodes, nodes]`.
        colors: `[nodes]`, from 0.
    """

    adjacency: Adjacency
    colors: NDArray[np.uint8]


def make_example(
    settings: GraphSettings, seed: int, split: int, index: int, attempts: int = 20_000
) -> Coloring:
    """Example `index` of a split: graphs are drawn until one needs exactly `settings.colors` colors."""
    random = np.random.default_rng([seed, split, index])
    for _ in range(attempts):
        adjacency = random_graph(settings, random)
        if fewer_colors_suffice(adjacency, settings.colors):
            continue
        colors = solve_coloring(adjacency, settings.colors)
        if colors is not None:
            return Coloring(adjacency, colors)
    raise InputError(
        f"None of {attempts:,} random graphs with {settings.smallest} to {settings.largest} nodes needs "
        f"exactly {settings.colors} colors; change the number of colors or the densities."
    )


def random_graph(settings: GraphSettings, random: np.random.Generator) -> Adjacency:
    """A connected random graph.

    The densest graphs are capped for large sizes, since few of them could be colored.
    """
    nodes = int(random.integers(settings.smallest, settings.largest + 1))
    cap = settings.largest / nodes * 2.0 / 3.0 * settings.highest_density
    highest = max(settings.lowest_density, min(settings.highest_density, cap))
    density = random.uniform(settings.lowest_density, highest)
    upper = np.triu(random.random((nodes, nodes)) < density, 1)
    adjacency = upper | upper.T
    for node in np.flatnonzero(~adjacency.any(1)):
        if not adjacency[node].any():  # it may have become another one's neighbour
            other = (node + 1 + int(random.integers(nodes - 1))) % nodes
            adjacency[node, other] = adjacency[other, node] = True
    part = component(adjacency)
    while not part.all():
        inside, outside = np.flatnonzero(part), np.flatnonzero(~part)
        others = outside[component(adjacency[np.ix_(outside, outside)])]
        for _ in range(3):
            one, two = random.choice(inside), random.choice(others)
            adjacency[one, two] = adjacency[two, one] = True
        part = component(adjacency)
    return adjacency


def component(adjacency: Adjacency) -> NDArray[np.bool_]:
    """Which nodes can be reached from the first: `[nodes]`."""
    rows = bit_rows(adjacency)
    reached = frontier = 1
    while frontier:
        found = neighbours(rows, frontier)
        frontier = found & ~reached
        reached |= frontier
    return np.array([reached >> node & 1 for node in range(len(rows))], dtype=bool)


def bit_rows(adjacency: Adjacency) -> list[int]:
    """The neighbours of every node as the bits of an integer."""
    packed = np.packbits(adjacency, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]


def neighbours(rows: list[int], nodes: int) -> int:
    """The neighbours of a set of nodes, both as bits of an integer."""
    found = 0
    while nodes:
        lowest = nodes & -nodes
        found |= rows[lowest.bit_length() - 1]
        nodes ^= lowest
    return found


def fewer_colors_suffice(adjacency: Adjacency, colors: int) -> bool:
    """Whether a graph with edges can be colored with fewer than `colors` colors."""
    if colors == 3:
        return is_bipartite(adjacency)
    return colors > 2 and solve_coloring(adjacency, colors - 1) is not None


def is_bipartite(adjacency: Adjacency) -> bool:
    """Whether two colors suffice for a connected graph."""
    rows = bit_rows(adjacency)
    sides = [1, 0]  # nodes at an even and at an odd distance from the first
    side, frontier = 0, 1
    while frontier:
        found = neighbours(rows, frontier)
        if found & sides[side]:
            return False
        side = 1 - side
        frontier = found & ~sides[side]
        sides[side] |= frontier
    return True


def has_clique(adjacency: Adjacency, size: int) -> bool:
    """Whether `size` nodes are all neighbours of each other."""
    rows = bit_rows(adjacency)

    def search(candidates: int, missing: int) -> bool:
        if missing == 0:
            return True
        while candidates.bit_count() >= missing:
            node = candidates.bit_length() - 1
            candidates ^= 1 << node
            if search(candidates & rows[node], missing - 1):
                return True
        return False

    return search((1 << len(rows)) - 1, size)


def solve_coloring(adjacency: Adjacency, colors: int) -> NDArray[np.uint8] | None:
    """One coloring with `colors` colors, `[nodes]`, or `None` where there is none."""
    require_solver()
    from ortools.sat.python import cp_model

    if has_clique(adjacency, colors + 1):  # the common reason, found much faster than by the solver
        return None
    model = cp_model.CpModel()
    nodes = [model.new_int_var(0, colors - 1, "") for _ in range(len(adjacency))]
    for one, two in np.argwhere(np.triu(adjacency)):
        model.add(nodes[one] != nodes[two])
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1  # several would make the outcome depend on their speed
    solver.parameters.random_seed = 0
    solver.parameters.catch_sigint_signal = False  # or Ctrl-C would end this search and nothing else
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return None
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise RuntimeError(f"the solver stopped without an answer: {solver.status_name(status)}")
    return np.array([solver.value(node) for node in nodes], dtype=np.uint8)


def require_solver() -> None:
    """Raise `MissingDependencyError` without OR-Tools."""
    try:
        import ortools.sat.python.cp_model  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            "Coloring graphs exactly needs OR-Tools; install it with pip install 'catnf[coloring]'."
        ) from error


def solver_version() -> str:
    """The version of OR-Tools, on which colorings depend."""
    require_solver()
    return version("ortools")
