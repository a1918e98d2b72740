"""Files of colored graphs, and the task made of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch

from catnf.context import GraphContext
from catnf.errors import InputError, StorageError
from catnf.tasks.coloring import ColoringTaskConfig, GraphColoring, conflicts, data, generation
from catnf.tasks.coloring.archive import Archive, fingerprint, load_archives, save_archives
from catnf.tasks.coloring.generation import DataPlan, make_dataset
from catnf.tasks.coloring.graphs import GraphSettings, make_example
from catnf.tasks.files import find_data

Seeded = Callable[[int], torch.Generator]
PLAN = DataPlan(GraphSettings(10, 13), (30, 8, 9), seed=5)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("coloring") / "graphs.npz"
    make_dataset(path, PLAN, workers=1)
    return path


@pytest.fixture
def task(path: Path) -> GraphColoring:
    return ColoringTaskConfig(size=str(path), nodes=16).make()


def test_archives_keep_graphs_and_colors() -> None:
    examples = [make_example(PLAN.graphs, 0, 0, index) for index in range(7)]
    whole = Archive.pack(examples)
    joined = Archive.join([Archive.pack(examples[:3]), Archive.pack(examples[3:])])
    for archive in (whole, joined):
        adjacency, colors = archive.dense(15)
        assert adjacency.shape == (7, 15, 15)
        for index, example in enumerate(examples):
            nodes = len(example.colors)
            assert np.array_equal(adjacency[index, :nodes, :nodes], example.adjacency)
            assert adjacency[index].sum() == example.adjacency.sum()
            assert np.array_equal(colors[index, :nodes], example.colors)
            assert (colors[index, nodes:] == -1).all()
    some, _ = whole.select(2, 5).dense(15)
    assert np.array_equal(some, whole.dense(15)[0][2:5])
    assert fingerprint({"a": whole}) == fingerprint({"a": joined}) != fingerprint({"a": whole.select(0, 6)})


def test_the_number_of_workers_changes_nothing(path: Path, tmp_path: Path) -> None:
    mark = make_dataset(tmp_path / "two.npz", PLAN, workers=2, at_once=20)
    assert mark == fingerprint(load_archives(path)[0])
    assert load_archives(tmp_path / "two.npz")[1]["fingerprint"] == mark
    assert [file.name for file in tmp_path.iterdir()] == ["two.npz"], "pieces are tidied away"


def test_an_interrupted_run_goes_on(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def stop(count: int) -> None:
        made.append(count)
        if len(made) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_dataset(tmp_path / "graphs.npz", PLAN, 1, stop, at_once=4)
    (parts,) = tmp_path.iterdir()
    pieces = sorted(parts.iterdir())
    assert len(pieces) == 3
    pieces[1].write_bytes(b"half a file")
    stamp = pieces[0].stat().st_mtime_ns
    monkeypatch.setattr(generation.shutil, "rmtree", lambda folder: None)
    counted: list[int] = []
    mark = make_dataset(tmp_path / "graphs.npz", PLAN, 1, counted.append, at_once=4)
    assert sum(counted) == sum(PLAN.counts)
    assert pieces[0].stat().st_mtime_ns == stamp, "what was finished is not made again"
    assert mark == fingerprint(load_archives(path)[0])


def test_other_plans_do_not_share_pieces() -> None:
    other = DataPlan(PLAN.graphs, PLAN.counts, seed=6)
    assert len({PLAN.digest("9.15"), PLAN.digest("9.16"), other.digest("9.15")}) == 3


def test_a_finished_set_is_not_made_again(path: Path) -> None:
    stamp = path.stat().st_mtime_ns
    counted: list[int] = []
    mark = make_dataset(path, PLAN, 1, counted.append)
    assert mark == fingerprint(load_archives(path)[0])
    assert counted == [sum(PLAN.counts)]
    assert path.stat().st_mtime_ns == stamp
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_default_sets_are_known_by_their_fingerprints() -> None:
    assert data.FINGERPRINTS.keys() <= data.PLANS.keys()
    for size, mark in data.FINGERPRINTS.items():
        found = find_data(data.relative_path(size))
        if found is None:
            pytest.skip(f"{size} is not made here")
        assert fingerprint(load_archives(found)[0]) == mark


def test_batches(task: GraphColoring, seeded: Seeded) -> None:
    x, ctx = task.batch(200, seeded(0))
    assert x.shape == (200, 16)
    assert ctx.mask is not None
    sizes = ctx.mask.sum(1)
    assert int(sizes.min()) == 10
    assert int(sizes.max()) == 13
    assert torch.equal(ctx.edges, ctx.edges.transpose(1, 2))
    assert not (ctx.edges.any(-1) & ~ctx.mask).any()
    assert (x[~ctx.mask] == 0).all()
    assert task.sample_metrics(x, ctx) == {"validity": 1.0}
    shares = torch.bincount(x[ctx.mask], minlength=3) / ctx.mask.sum()
    torch.testing.assert_close(shares, task.frequencies(), atol=0.05, rtol=0.0)
    assert torch.equal(task.batch(200, seeded(0))[0], x)


def test_colors_are_permuted(path: Path, seeded: Seeded) -> None:
    task = GraphColoring(str(path), nodes=13)
    x, ctx = task.batch(500, seeded(1))
    graphs = ctx.edges.flatten(1).double() @ torch.rand(13 * 13, dtype=torch.float64, generator=seeded(2))
    first = x[graphs == graphs[0], 0]
    assert set(first.tolist()) == {0, 1, 2}, "one graph comes with its first node in every color"


def test_evaluation(task: GraphColoring) -> None:
    for split, count in (("validation", 8), ("test", 9)):
        x, ctx = task.evaluation(split), task.evaluation_context(split)  # type: ignore[arg-type]
        assert x.shape == (count, 16)
        assert task.sample_metrics(x, ctx) == {"validity": 1.0}
    assert torch.equal(task.evaluation("test", 3), task.evaluation("test")[:3])
    assert task.measured_context("test", 100).batch == 9
    assert task.sample_context(20).batch == 20
    assert torch.equal(task.sample_context(20).edges[:9], task.sample_context(20).edges[9:18])


def test_conflicts_are_counted() -> None:
    triangle = torch.ones(2, 3, 3, dtype=torch.bool) & ~torch.eye(3, dtype=torch.bool)
    ctx = GraphContext.of(triangle)
    assert conflicts(torch.tensor([[0, 0, 0], [0, 1, 0]]), ctx).tolist() == [3, 1]


def test_a_model_is_made_without_data() -> None:
    task = ColoringTaskConfig(size="large").make()
    assert (task.name, task.categories, task.nodes) == ("coloring/large", 3, 50)


def test_missing_data_tells_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seeded: Seeded
) -> None:
    monkeypatch.setenv("CATNF_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(StorageError, match="make it with catnf data coloring --size small"):
        ColoringTaskConfig().make().batch(2, seeded(0))


def test_default_sets_are_checked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: Path, seeded: Seeded
) -> None:
    monkeypatch.setenv("CATNF_DATA", str(tmp_path))
    (tmp_path / "coloring").mkdir()
    (tmp_path / "coloring" / "small.npz").write_bytes(path.read_bytes())
    monkeypatch.setattr(data, "FINGERPRINTS", {"small": "another"})
    with pytest.raises(StorageError, match="holds other graphs than the default set 'small'"):
        ColoringTaskConfig().make().batch(2, seeded(0))
    monkeypatch.setattr(data, "FINGERPRINTS", {"small": fingerprint(load_archives(path)[0])})
    assert ColoringTaskConfig().make().batch(2, seeded(0))[0].shape == (2, 20)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 half"])
def test_files_of_something_else(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "graphs.npz").write_bytes(content)
    with pytest.raises(StorageError, match="cannot be read as colored graphs"):
        load_archives(tmp_path / "graphs.npz")


def test_damaged_files(path: Path, tmp_path: Path) -> None:
    content = path.read_bytes()
    for place in range(0, len(content), len(content) // 60):
        broken = bytearray(content)
        broken[place] ^= 0xFF
        (tmp_path / "graphs.npz").write_bytes(broken)
        with suppress(StorageError):  # and nothing else; some bytes do not matter
            load_archives(tmp_path / "graphs.npz")


def test_files_whose_parts_do_not_fit(tmp_path: Path) -> None:
    whole = Archive.pack([make_example(PLAN.graphs, 0, 0, 0)])
    broken = Archive(whole.sizes, whole.edges[:-1], whole.colors)
    save_archives(tmp_path / "graphs.npz", {"train": broken}, {})
    with pytest.raises(StorageError, match="is damaged"):
        load_archives(tmp_path / "graphs.npz")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"nodes": 12}, "has a graph of 13 nodes; set task.nodes to 13"),
        ({"nodes": 16, "colors": 2}, "has 3 colors; set task.colors to 3"),
    ],
)
def test_graphs_that_do_not_fit_the_task(
    path: Path, seeded: Seeded, settings: dict[str, int], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        ColoringTaskConfig(size=str(path), **settings).make().batch(2, seeded(0))  # type: ignore[arg-type]


def test_wrong_input(task: GraphColoring) -> None:
    with pytest.raises(InputError, match="Colors alone do not tell the graph"):
        task.context(torch.zeros(1, 16, dtype=torch.int64))
    with pytest.raises(InputError, match="give the context they belong to"):
        task.sample_metrics(torch.zeros(1, 16, dtype=torch.int64))
    with pytest.raises(InputError, match=r"task\.nodes is 0"):
        ColoringTaskConfig(size="mine.npz")
    with pytest.raises(InputError, match="counts are"):
        DataPlan(counts=(0, 0, 0))
