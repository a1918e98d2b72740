"""Random graphs and their colorings."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from catnf.errors import InputError
from catnf.tasks.coloring.graphs import (
    Adjacency,
    GraphSettings,
    component,
    has_clique,
    is_bipartite,
    make_example,
    random_graph,
    solve_coloring,
)

SMALL, LARGE = GraphSettings(), GraphSettings(25, 50)


def some_graphs(count: int = 60, density: float = 0.25) -> list[Adjacency]:
    random = np.random.default_rng(3)
    graphs = []
    for _ in range(count):
        nodes = int(random.integers(2, 12))
        upper = np.triu(random.random((nodes, nodes)) < density, 1)
        graphs.append(upper | upper.T)
    return graphs


@pytest.mark.parametrize("settings", [SMALL, LARGE], ids=["small", "large"])
def test_random_graphs_are_simple_and_connected(settings: GraphSettings) -> None:
    random = np.random.default_rng(0)
    sizes = set()
    for _ in range(100):
        adjacency = random_graph(settings, random)
        sizes.add(len(adjacency))
        assert np.array_equal(adjacency, adjacency.T)
        assert not adjacency.diagonal().any()
        assert nx.is_connected(nx.from_numpy_array(adjacency))
    assert min(sizes) >= settings.smallest
    assert max(sizes) <= settings.largest
    assert len(sizes) > 8


def test_dense_graphs_are_capped_where_they_are_large() -> None:
    random = np.random.default_rng(0)
    settings = GraphSettings(50, 50, lowest_density=0.1, highest_density=0.3)
    shares = [random_graph(settings, random).mean() for _ in range(200)]
    assert max(shares) < 0.25  # 0.2 and what chance adds, not 0.3


def test_questions_about_graphs_agree_with_networkx() -> None:
    for adjacency in some_graphs():
        graph = nx.from_numpy_array(adjacency)
        reached = sorted(nx.node_connected_component(graph, 0))
        assert np.flatnonzero(component(adjacency)).tolist() == reached
        part = adjacency[np.ix_(reached, reached)]
        assert is_bipartite(part) == nx.is_bipartite(nx.from_numpy_array(part))
        largest = max(len(clique) for clique in nx.find_cliques(graph))
        assert has_clique(adjacency, largest)
        assert not has_clique(adjacency, largest + 1)


def test_the_solver_colors_what_can_be_colored_and_nothing_else() -> None:
    for adjacency in some_graphs(30, 0.5):
        if len(adjacency) > 7:
            continue
        nodes = len(adjacency)
        tuples = np.stack(np.meshgrid(*[np.arange(3)] * nodes, indexing="ij"), -1).reshape(-1, nodes)
        clash = (tuples[:, :, None] == tuples[:, None, :]) & adjacency
        possible = bool((~clash.any((1, 2))).any())
        colors = solve_coloring(adjacency, 3)
        assert (colors is not None) == possible
        if colors is not None:
            assert not ((colors[:, None] == colors) & adjacency).any()


@pytest.mark.parametrize("index", range(12))
def test_examples_need_exactly_their_colors(index: int) -> None:
    example = make_example(SMALL, 0, 0, index)
    assert not ((example.colors[:, None] == example.colors) & example.adjacency).any()
    assert set(example.colors.tolist()) == {0, 1, 2}
    assert solve_coloring(example.adjacency, 2) is None


def test_four_colors() -> None:
    example = make_example(GraphSettings(8, 10, colors=4, lowest_density=0.4, highest_density=0.6), 0, 0, 0)
    assert solve_coloring(example.adjacency, 3) is None
    assert len(set(example.colors.tolist())) == 4


def test_an_example_depends_on_seed_split_and_index_alone() -> None:
    first = make_example(SMALL, 1, 2, 3)
    make_example(SMALL, 0, 0, 0)
    again = make_example(SMALL, 1, 2, 3)
    assert np.array_equal(first.adjacency, again.adjacency)
    assert np.array_equal(first.colors, again.colors)
    others = [make_example(SMALL, *place) for place in ((0, 2, 3), (1, 0, 3), (1, 2, 0))]
    assert all(not np.array_equal(first.adjacency, other.adjacency) for other in others)


def test_impossible_wishes_end() -> None:
    with pytest.raises(InputError, match="needs exactly 5 colors"):
        make_example(GraphSettings(6, 6, colors=5, highest_density=0.1), 0, 0, 0, attempts=20)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"smallest": 30}, "Sizes go from 30 to 20"),
        ({"largest": 300}, "Sizes go from 10 to 300"),
        ({"colors": 1}, "colors is 1"),
        ({"colors": 11}, "colors is 11"),
        ({"lowest_density": 0.0}, "Densities go from 0.0"),
        ({"highest_density": 0.05}, "Densities go from 0.1 to 0.05"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        GraphSettings(**settings)  # type: ignore[arg-type]
