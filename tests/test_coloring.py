"""Coloring graphs of a user, from Python and from the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from itertools import combinations
from pathlib import Path

import networkx as nx
import pytest

from catnf.coloring import color_graph
from catnf.errors import InputError, StorageError
from catnf.evaluation import EvaluationOptions, best_of, success
from catnf.experiments import load_experiment
from catnf.fitted import FittedModel, load
from catnf.tasks.coloring.drawing import draw_colorings
from catnf.tasks.coloring.files import read_graph
from catnf.tasks.coloring.generation import DataPlan, make_dataset
from catnf.tasks.coloring.graphs import GraphSettings
from catnf.training.run import RunOptions, train


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that colors triangles and the like: trained for seconds."""
    folder = tmp_path_factory.mktemp("coloring")
    make_dataset(folder / "graphs.npz", DataPlan(GraphSettings(3, 5), (200, 20, 20)), workers=1)
    overrides = (
        f"task.size={folder / 'graphs.npz'}",
        "task.nodes=5",
        "model.hidden=16",
        "model.blocks=1",
        "model.heads=2",
        "model.layers=3",
        "training.batch=64",
        "training.steps=60",
        "training.warmup=5",
    )
    experiment = load_experiment("coloring/small/graphcnf", overrides)
    train(experiment, RunOptions(folder / "run", device="cpu", quiet=True))
    return folder / "run"


@pytest.fixture(scope="module")
def fitted(run: Path) -> FittedModel:
    return load(run)


def catnf(*arguments: object, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CATNF_DATA": "", "XDG_CACHE_HOME": str(folder or "/nonexistent")}
    command = [sys.executable, "-m", "catnf", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def assert_refused(done: subprocess.CompletedProcess[str], words: str) -> None:
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_a_graph_gets_colors(fitted: FittedModel) -> None:
    graph = nx.Graph([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
    outcome = color_graph(graph, fitted, samples=64, seed=1)
    assert set(outcome.colors) == set("abcd")
    assert set(outcome.colors.values()) <= {0, 1, 2}
    assert outcome.valid > 0
    assert outcome.conflicts == []
    assert all(outcome.colors[one] != outcome.colors[two] for one, two in graph.edges)
    assert color_graph(graph, fitted, samples=64, seed=1) == outcome


def test_the_best_is_given_where_nothing_is_valid(fitted: FittedModel) -> None:
    outcome = color_graph(nx.complete_graph(5), fitted, samples=200)
    assert outcome.valid == 0
    assert len(outcome.conflicts) >= 2, "five nodes in three colors"
    assert all(outcome.colors[one] == outcome.colors[two] for one, two in outcome.conflicts)
    assert len(color_graph(nx.complete_graph(5), fitted, samples=1).conflicts) >= len(outcome.conflicts)


def test_any_graph_that_networkx_knows(fitted: FittedModel) -> None:
    for graph in (
        nx.empty_graph(3),
        nx.DiGraph([(0, 1), (1, 0)]),
        nx.MultiGraph([(0, 1), (0, 1), (1, 2)]),
        nx.complete_graph(5, nx.DiGraph),
        nx.cycle_graph(60),  # larger than anything it was trained on
        nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(4)),
    ):
        outcome = color_graph(graph, fitted, samples=4)
        assert set(outcome.colors) == set(graph.nodes)
        assert outcome.tried == 4
        assert len({frozenset(edge) for edge in outcome.conflicts}) == len(outcome.conflicts)


def test_the_bundled_model_colors_small_and_large_graphs() -> None:
    for graph in (nx.cycle_graph(7), nx.petersen_graph(), nx.random_regular_graph(3, 60, seed=0)):
        outcome = color_graph(graph)
        assert outcome.conflicts == []
        assert len(set(outcome.colors.values())) == 3


def test_graphs_that_cannot_be_colored(fitted: FittedModel) -> None:
    with pytest.raises(InputError, match="The graph has no nodes"):
        color_graph(nx.Graph(), fitted)
    with pytest.raises(InputError, match="Node 'a' has an edge to itself"):
        color_graph(nx.Graph([("a", "a")]), fitted)
    with pytest.raises(InputError, match="samples is 0"):
        color_graph(nx.path_graph(2), fitted, samples=0)
    with pytest.raises(InputError, match="sets/shuffling/mixture does not color graphs"):
        color_graph(nx.path_graph(2), "sets/shuffling/mixture")


GRAPH = nx.Graph([("1", "2"), ("2", "3"), ("3", "1"), ("3", "4")])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("graph.txt", "# a comment\n1 2\n2 3  # another\n\n3,1\n3 4\n"),
        ("bom.txt", "\ufeff1 2\n2 3\n3 1\n3 4\n"),
        ("weights.txt", "1 2 0.5\n2 3 {}\n3 1\n3 4\n"),
        ("table.csv", "Source,Target,weight\n1,2,5\n2,3,5\n3,1,5\n3,4,5\n"),
        ("GRAPH.COL", "p col 4 4\ne 1 2\ne 2 3\ne 3 1\ne 3 4\nx 1 2\n"),
        ("graph.any", json.dumps(nx.node_link_data(GRAPH, edges="edges"))),
        ("graph.col", "c a comment\np edge 4 4\ne 1 2\ne 2 3\ne 3 1\ne 3 4\n"),
        ("dimacs.txt", "p edge 4 4\ne 1 2\ne 2 3\ne 3 1\ne 3 4\n"),
        ("graph.json", json.dumps(nx.node_link_data(GRAPH, edges="edges"))),
        ("links.json", json.dumps(nx.node_link_data(GRAPH, edges="links"))),
    ],
)
def test_formats(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    read = nx.relabel_nodes(read_graph(tmp_path / name), str)
    assert nx.utils.graphs_equal(read, GRAPH)


def test_nodes_without_edges_are_kept(tmp_path: Path) -> None:
    (tmp_path / "graph.col").write_text("p edge 5 1\ne 1 2\n")
    assert len(read_graph(tmp_path / "graph.col")) == 5


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("graph.txt", "1 2\n3\n", "line 2: '3' is not an edge"),
        ("graph.txt", '{"nodes": [{"id": 1}]', "is not a graph in networkx' node-link JSON"),
        ("graph.col", "e 1 2\n", "line 1: 'e 1 2' is not DIMACS"),
        ("graph.col", "p edge 2 1\ne 1 3\n", "line 2: edge 1 3, but only 2 nodes"),
        ("graph.col", "p edge x y\n", "is not DIMACS"),
        ("graph.col", "p edge 1000000000 1\n", "line 1: 1000000000 nodes; give 1 to 5,000"),
        ("graph.col", "c nothing\n", "has no line 'p edge NODES EDGES'"),
        ("graph.json", "{", "is not a graph in networkx' node-link JSON"),
        ("graph.json", "[1, 2]", "is not a graph in networkx' node-link JSON"),
    ],
)
def test_files_that_are_no_graphs(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        read_graph(tmp_path / name)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be read"):
        read_graph(tmp_path / "missing.txt")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not UTF-8 text"):
        read_graph(tmp_path / "binary.txt")


def test_pictures_mark_conflicts(tmp_path: Path) -> None:
    from matplotlib.image import imread

    def red(colors: dict[int, int]) -> int:
        draw_colorings(tmp_path / "graph.png", {"a graph": (nx.path_graph(3), colors)})
        pixels = imread(tmp_path / "graph.png")[..., :3]
        return int(((pixels[..., 0] > 0.8) & (pixels[..., 1:] < 0.15).all(-1)).sum())

    assert red({0: 0, 1: 1, 2: 0}) == 0
    assert red({0: 0, 1: 0, 2: 1}) > 50


def test_pictures_may_name_nodes(tmp_path: Path) -> None:
    graph = nx.Graph([("$a", "b")])  # a dollar starts a formula where one is looked for
    for names in (False, True):
        draw_colorings(tmp_path / f"{names}.png", {"a graph": (graph, {"$a": 0, "b": 1})}, names=names)
    assert (tmp_path / "True.png").read_bytes() != (tmp_path / "False.png").read_bytes()


def test_samples_are_drawn(run: Path, tmp_path: Path) -> None:
    done = catnf("sample", run, "-n", 3, "--device=cpu", "--grid", tmp_path / "grid.png", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 4
    assert (tmp_path / "grid.png").read_bytes().startswith(b"\x89PNG")


def test_color_command(run: Path, tmp_path: Path) -> None:
    (tmp_path / "graph.txt").write_text("a b\nb c\nc a\n")
    picture = tmp_path / "graph.png"
    done = catnf("color", tmp_path / "graph.txt", "--model", run, "--samples=64", "--draw", picture)
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == ["a", "b", "c"]
    assert sorted(row[1] for row in rows) == ["0", "1", "2"]
    assert "A valid coloring" in done.stderr
    assert picture.stat().st_size > 1000
    told = json.loads(catnf("color", tmp_path / "graph.txt", "--model", run, "--json").stdout)
    assert set(told) == {"colors", "conflicts", "tried", "valid"}


def test_color_command_refuses(run: Path, tmp_path: Path) -> None:
    (tmp_path / "graph.txt").write_text("a b\n")
    (tmp_path / "loop.txt").write_text("a a\n")
    (tmp_path / "empty.txt").write_text("")
    model = ("--model", run)
    assert_refused(catnf("color", tmp_path / "missing.txt", *model), "cannot be read")
    assert_refused(catnf("color", tmp_path / "loop.txt", *model), "Node 'a' has an edge to itself")
    assert_refused(catnf("color", tmp_path / "empty.txt", *model), "The graph has no nodes")
    assert_refused(catnf("color", tmp_path / "graph.txt", *model, "--colors=4"), "4 colors were asked for")
    assert_refused(catnf("color", tmp_path / "graph.txt", *model, "--samples=0"), "samples is 0")


def test_data_command(tmp_path: Path) -> None:
    few = ("data", "coloring", "--counts", 6, 2, 2, "--workers=1")
    done = catnf(*few, "-o", tmp_path / "graphs.npz", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["graphs"] == 10
    assert Path(told["path"]).exists()
    again = catnf(*few, "-o", tmp_path / "again.npz", "--json")
    assert json.loads(again.stdout)["fingerprint"] == told["fingerprint"]
    assert_refused(catnf(*few), "name a file for them with -o graphs.npz")
    assert_refused(catnf(*few, "-o", tmp_path / "graphs.txt"), "give a name that ends in .npz")
    assert_refused(catnf("data", "coloring", "--colors=1", "-o", "x.npz"), "colors is 1")
    assert_refused(
        catnf("train", "coloring/small/vae", "--device=cpu", "-o", tmp_path / "run", folder=tmp_path),
        "make it with catnf data coloring --size small",
    )


def test_evaluate_and_sample_commands(run: Path) -> None:
    done = catnf("evaluate", run, "--samples=2", "--examples=10", "--json", "--split=test", "--device=cpu")
    assert done.returncode == 0, done.stderr
    metrics = json.loads(done.stdout)["metrics"]
    assert json.loads(done.stdout)["n"]["validity_best_of_64"] == 10
    best = [metrics.pop(f"validity_best_of_{count}") for count in (1, 4, 16, 64)]
    assert best == sorted(best), "more attempts find more"
    assert set(metrics) == {"bits_per_node", "bits_bound", "reconstruction", "validity"}
    assert json.loads(done.stdout)["n"]["validity"] == 20, "one coloring for every graph of the split"
    drawn = json.loads(catnf("sample", run, "-n", 3, "--json", "--seed=0", "--device=cpu").stdout)
    assert len(drawn["samples"]) == 3
    header, *rows = catnf("sample", run, "-n", 3, "--seed=0", "--device=cpu").stdout.splitlines()
    assert header == "edges,colors,conflicts"
    for row in rows:
        edges, colors, wrong = row.split(",")
        pairs = [tuple(map(int, edge.split("-"))) for edge in edges.split()]
        of = list(map(int, colors.split()))
        assert sum(of[one] == of[two] for one, two in pairs) == int(wrong)


def test_best_of_several(fitted: FittedModel) -> None:
    for samples, valid, attempts in ((4, 1, 2), (5, 2, 3), (6, 0, 2), (6, 6, 1)):
        chosen = list(combinations(range(samples), attempts))
        truth = sum(any(place < valid for place in some) for some in chosen) / len(chosen)
        assert success(samples, valid, attempts) == pytest.approx(truth)
    ctx = fitted.task.measured_context("test", 20)
    best = best_of(fitted, ctx, EvaluationOptions(seed=3))
    single = fitted.task.sample_metrics(fitted.sample(20, 0, ctx=ctx), ctx)["validity"]
    assert best[1] == pytest.approx(single, abs=0.35)
    assert best[64] > best[1]


def test_a_context_must_have_as_many_graphs_as_samples(fitted: FittedModel) -> None:
    with pytest.raises(InputError, match="16 samples were asked for with a context of 1"):
        fitted.sample(16, ctx=fitted.task.sample_context(1))


def test_ctrl_c_keeps_what_is_made(tmp_path: Path) -> None:
    # Far more graphs than are made before the interruption; and a job in the background of a shell, as these
    # tests may be, ignores Ctrl-C and hands that on.
    command = [sys.executable, "-m", "catnf", "data", "coloring", "--counts", "9999", "1", "1", "--workers=1"]
    process = subprocess.Popen(
        [*command, "-o", tmp_path / "graphs.npz"],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 120
    # Not any *.npz: a file that is still being written ends so too, and an interruption takes it away.
    while not list(tmp_path.glob("*.parts/train-*.npz")) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "the same command goes on from here" in told
    assert list(tmp_path.glob("*.parts/train-*.npz"))
