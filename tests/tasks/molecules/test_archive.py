"""Molecules in memory and in files."""

from __future__ import annotations

import contextlib
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catnf.errors import InputError, StorageError
from catnf.tasks.molecules.archive import MoleculeArchive, MoleculeData
from catnf.tasks.molecules.vocabulary import NEUTRAL, MolecularGraph


def random_graph(random: np.random.Generator, atoms: int, density: float) -> MolecularGraph:
    one, two = np.triu_indices(atoms, 1)
    kept = random.random(len(one)) < density
    orders = random.integers(1, 4, kept.sum())
    bonds = np.stack([one[kept], two[kept], orders], axis=1).astype(np.uint8)
    return MolecularGraph(random.integers(0, 9, atoms).astype(np.uint8), random.permutation(bonds))


@st.composite
def archives(draw: st.DrawFn) -> tuple[list[MolecularGraph], MoleculeArchive]:
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    sizes = draw(st.lists(st.one_of(st.integers(1, 12), st.sampled_from([1, 40, 255])), max_size=8))
    density = draw(st.sampled_from([0.0, 0.1, 0.4]))
    graphs = [random_graph(random, size, density if size < 99 else 0.02) for size in sizes]
    return graphs, MoleculeArchive.pack(graphs, random.random(len(graphs)) < 0.5)


def contents(graph: MolecularGraph) -> tuple[list[int], set[tuple[int, ...]]]:
    return graph.atoms.tolist(), {tuple(row) for row in graph.bonds.tolist()}


def assert_same(one: MoleculeArchive, two: MoleculeArchive) -> None:
    for name in ("sizes", "atoms", "bond_counts", "bonds", "valid"):
        first, second = getattr(one, name), getattr(two, name)
        assert first.dtype == second.dtype
        assert np.array_equal(first, second), name


@given(archives())
def test_molecules_come_back(made: tuple[list[MolecularGraph], MoleculeArchive]) -> None:
    graphs, archive = made
    assert len(archive) == len(graphs)
    assert [contents(graph) for graph in archive] == [contents(graph) for graph in graphs]
    assert archive.largest == (
        max((len(graph.atoms) for graph in graphs), default=0),
        max((len(graph.bonds) for graph in graphs), default=0),
    )
    degrees = [np.bincount(graph.bonds[:, :2].ravel(), minlength=1).max() for graph in graphs]
    assert archive.most_bonds == max(degrees, default=0)


@given(archives(), st.data())
def test_parts_are_parts(made: tuple[list[MolecularGraph], MoleculeArchive], data: st.DataObject) -> None:
    graphs, archive = made
    start, stop = data.draw(st.integers(0, 9)), data.draw(st.integers(0, 9))
    some = archive.select(start, stop)
    assert [contents(graph) for graph in some] == [contents(graph) for graph in graphs[start:stop]]
    assert np.array_equal(some.valid, archive.valid[start:stop])
    indices = data.draw(st.lists(st.integers(0, len(graphs) - 1), max_size=9)) if graphs else []
    taken = archive.take(indices)
    assert [contents(graph) for graph in taken] == [contents(graphs[index]) for index in indices]
    assert_same(
        MoleculeArchive.join([archive.select(0, start), archive.select(start, len(archive))]), archive
    )


@given(archives(), st.integers(0, 3))
def test_padding(made: tuple[list[MolecularGraph], MoleculeArchive], more: int) -> None:
    _, archive = made
    nodes, bonds = archive.largest[0] + more, archive.largest[1] + more
    atoms, ends, orders = archive.padded(nodes, bonds)
    assert atoms.shape == (len(archive), nodes)
    assert ends.shape == (len(archive), bonds, 2)
    assert orders.shape == (len(archive), bonds)
    assert atoms.dtype == ends.dtype == orders.dtype == np.uint8
    for index, graph in enumerate(archive):
        size, count = len(graph.atoms), len(graph.bonds)
        assert np.array_equal(atoms[index, :size], graph.atoms)
        assert (atoms[index, size:] == 255).all()
        assert np.array_equal(ends[index, :count], graph.bonds[:, :2])
        assert np.array_equal(orders[index, :count], graph.bonds[:, 2])
        assert not ends[index, count:].any()
        assert not orders[index, count:].any()


def test_padding_must_suffice() -> None:
    archive = MoleculeArchive.pack([random_graph(np.random.default_rng(0), 6, 1.0)])
    for shape in ((5, 15), (6, 14)):
        with pytest.raises(InputError, match="have 6 atoms and 15 bonds"):
            archive.padded(*shape)


@pytest.mark.parametrize(
    ("atoms", "bonds", "message"),
    [
        (0, [], "has 0 atoms"),
        (256, [], "has 256 atoms"),
        (2, [(1, 0, 1)], "does not join two atoms"),
        (2, [(1, 1, 1)], "does not join two atoms"),
        (2, [(0, 2, 1)], "does not join two atoms"),
        (2, [(0, 1, 0)], "another order than 1 to 3"),
        (2, [(0, 1, 4)], "another order than 1 to 3"),
        (3, [(0, 1, 1), (1, 2, 1), (0, 1, 2)], "join the same atoms"),
    ],
)
def test_graphs_that_cannot_be(atoms: int, bonds: list[tuple[int, int, int]], message: str) -> None:
    good = random_graph(np.random.default_rng(0), 5, 0.5)
    bad = MolecularGraph(np.zeros(atoms, np.uint8), np.array(bonds, np.uint8).reshape(-1, 3))
    with pytest.raises(InputError, match=message):
        MoleculeArchive.pack([good, bad])


@given(first=archives(), second=archives())
def test_files(
    tmp_path_factory: pytest.TempPathFactory,
    first: tuple[list[MolecularGraph], MoleculeArchive],
    second: tuple[list[MolecularGraph], MoleculeArchive],
) -> None:
    path = tmp_path_factory.mktemp("archive") / "molecules.npz"
    data = MoleculeData(NEUTRAL, {"train": first[1], "test": second[1]}, {"source": "chance", "n": [1, 2]})
    data.save(path)
    again = MoleculeData.load(path)
    assert again.vocabulary == NEUTRAL
    assert again.about == data.about
    assert list(again.splits) == ["train", "test"]
    for name, split in again.splits.items():
        assert_same(split, data.splits[name])
    assert again.fingerprint() == data.fingerprint()
    assert list(MoleculeData.load(path, ["test"]).splits) == ["test"]
    before = path.read_bytes()
    again.save(path)
    assert path.read_bytes() == before


def test_the_fingerprint_tells_everything_apart() -> None:
    archive = MoleculeArchive.pack([random_graph(np.random.default_rng(0), 6, 0.5) for _ in range(3)])
    data = MoleculeData(NEUTRAL, {"train": archive}, {})
    marks = {
        data.fingerprint(),
        MoleculeData(NEUTRAL, {"test": archive}, {}).fingerprint(),
        MoleculeData(NEUTRAL, {"train": archive.take([0, 2, 1])}, {}).fingerprint(),
        MoleculeData(NEUTRAL, {"train": replace(archive, valid=~archive.valid)}, {}).fingerprint(),
        MoleculeData(NEUTRAL, {"train": replace(archive, atoms=archive.atoms + 1)}, {}).fingerprint(),
    }
    assert len(marks) == 4, "equal molecules may change places, and nothing else"
    assert replace(data, about={"source": "elsewhere"}).fingerprint() == data.fingerprint()


def a_file(folder: Path) -> Path:
    random = np.random.default_rng(1)
    archive = MoleculeArchive.pack([random_graph(random, 8, 0.3) for _ in range(20)])
    MoleculeData(NEUTRAL, {"train": archive}, {}).save(folder / "molecules.npz")
    return folder / "molecules.npz"


def test_damaged_files(tmp_path: Path) -> None:
    path = a_file(tmp_path)
    content = path.read_bytes()
    with pytest.raises(StorageError, match="has no validation split; it has train"):
        MoleculeData.load(path, ["validation"])
    with pytest.raises(StorageError, match="There is no file"):
        MoleculeData.load(tmp_path / "missing.npz")
    for bad in (b"", b"hello", content[: len(content) // 2], b"\x00" * 1000):
        path.write_bytes(bad)
        with pytest.raises(StorageError, match="cannot be read as molecules"):
            MoleculeData.load(path)
    for place in range(30, len(content), 97):  # whatever byte changes, nothing but a clear error comes of it
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        with contextlib.suppress(StorageError):
            MoleculeData.load(path)


@pytest.mark.parametrize(
    ("part", "values"),
    [("sizes", [0] * 20), ("atoms", [9] * 160), ("steps", [200] * 50), ("orders", [4]), ("valid", [1])],
)
def test_columns_that_do_not_fit(tmp_path: Path, part: str, values: list[int]) -> None:
    path = a_file(tmp_path)
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files}
    arrays[f"train/{part}"] = np.array(values, dtype=np.uint8)
    np.savez(path, **arrays)
    with pytest.raises(StorageError, match="cannot be read as molecules"):
        MoleculeData.load(path)


def test_newer_files(tmp_path: Path) -> None:
    path = a_file(tmp_path)
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files}
    header = json.loads(arrays["header"].tobytes()) | {"format": 99}
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(path, **arrays)
    with pytest.raises(StorageError, match="written by a newer catnf"):
        MoleculeData.load(path)


def test_nothing_is_pickled(tmp_path: Path) -> None:
    with zipfile.ZipFile(a_file(tmp_path)) as file:
        for name in file.namelist():
            assert file.read(name)[:80].count(b"'|u1'") == 1
