"""Molecules as a task: batches are the molecules of the file, training and the command line work on them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from catnf.configuration import to_mapping
from catnf.context import Context
from catnf.errors import InputError, StorageError
from catnf.experiments import Experiment
from catnf.models.graph_cnf import GraphCNF
from catnf.tasks.molecules import Molecules, MoleculeTaskConfig, Vocabulary
from catnf.tasks.molecules.archive import MoleculeArchive, MoleculeData
from catnf.tasks.molecules.vocabulary import MolecularGraph
from catnf.tasks.task import Measuring, spread

ATOMS = ("C", "N", "O")
SMALL = [
    ([0, 0, 2], [(0, 1, 1), (1, 2, 1)]),  # ethanol
    ([0, 1], [(0, 1, 3)]),  # hydrogen cyanide
    ([0, 0, 0, 0, 0, 0], [(0, 1, 2), (1, 2, 1), (2, 3, 2), (3, 4, 1), (4, 5, 2), (0, 5, 1)]),  # benzene
    ([0, 2, 0], [(0, 1, 1), (1, 2, 1)]),  # dimethyl ether
    ([2, 0, 1, 0], [(0, 1, 2), (1, 2, 1), (2, 3, 1)]),  # N-methylformamide
]


def graphs() -> list[MolecularGraph]:
    return [MolecularGraph(np.array(a, np.uint8), np.array(b, np.uint8)) for a, b in SMALL]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("molecules") / "some.npz"
    archive = MoleculeArchive.pack(graphs() * 4)
    splits = {"train": archive, "validation": archive.select(0, 5), "test": archive.select(0, 5)}
    MoleculeData(Vocabulary(ATOMS), splits, {}).save(file)
    return file


def config(path: Path, groups: tuple[int, ...] = (3,)) -> MoleculeTaskConfig:
    return MoleculeTaskConfig(source=str(path), atoms=ATOMS, nodes=6, bonds=7, groups=groups)


@pytest.fixture
def task(path: Path) -> Molecules:
    return config(path).make()


def key(graph: MolecularGraph) -> tuple[list[int], list[list[int]]]:
    return graph.atoms.tolist(), sorted(graph.bonds.tolist())


def test_batches_hold_the_molecules_of_the_file(task: Molecules) -> None:
    generator = torch.Generator().manual_seed(0)
    x, ctx = task.batch(200, generator)
    assert x.shape == (200, 6 + 15)
    known = [key(graph) for graph in graphs()]
    counts = [0] * len(known)
    for graph in task.graphs(x, ctx):
        counts[known.index(key(graph))] += 1
    assert min(counts) > 20
    x, ctx = task.evaluation("test"), task.evaluation_context("test")
    assert [key(graph) for graph in task.graphs(x, ctx)] == known


def test_a_limited_evaluation_is_spread_over_the_split(task: Molecules) -> None:
    known = [key(graph) for graph in graphs()]
    for limit in range(1, 8):
        x, ctx = task.evaluation("test", limit), task.evaluation_context("test", limit)
        found = [key(graph) for graph in task.graphs(x, ctx)]
        assert found == [known[place] for place in spread(5, limit).tolist()], "bonds belong to their atoms"
    with pytest.raises(InputError, match="The limit is 0"):
        task.evaluation_context("test", 0)


def test_parts_are_padded_to_their_group_and_weighted_by_its_share(task: Molecules) -> None:
    parts = task.parts(50, torch.Generator().manual_seed(0))
    assert [part.ctx.elements for part in parts] == [3, 6]
    assert [part.weight for part in parts] == pytest.approx([0.6, 0.4])
    assert [len(part.x) for part in parts] == [30, 20]
    assert int(parts[0].ctx.counts(torch.zeros(1)).max()) == 3
    assert int(parts[1].ctx.counts(torch.zeros(1)).min()) == 4
    known = [key(graph) for graph in graphs()]
    assert all(key(graph) in known for part in parts for graph in task.graphs(part.x, part.ctx))


def test_statistics_are_those_of_the_training_molecules(task: Molecules) -> None:
    known = task.statistics()
    assert known.atoms.tolist() == pytest.approx([13 / 18, 2 / 18, 3 / 18], abs=1e-6)
    assert known.bonds.tolist() == pytest.approx([9 / 14, 4 / 14, 1 / 14], abs=1e-6)
    assert known.sizes.tolist() == pytest.approx([0, 0, 0.2, 0.4, 0.2, 0, 0.2], abs=1e-6)
    assert known.bonded == pytest.approx(14 / (3 + 1 + 15 + 3 + 6))
    sizes = task.sample_context(100).counts(torch.zeros(1)).long().bincount(minlength=7)
    assert sizes.tolist() == [0, 0, 20, 40, 20, 0, 20]


def test_shares_say_of_how_many(task: Molecules) -> None:
    pytest.importorskip("rdkit")
    x, ctx = task.evaluation("test"), task.evaluation_context("test")
    x = torch.cat([x, x[:2]])
    x[0, 6:] = 0  # no bonds: three pieces
    whole = Context(7, 6, torch.cat([ctx.mask, ctx.mask[:2]]))  # type: ignore[list-item]
    values = task.measure(x, whole, Measuring("test")).values
    shares = {name: (values[name].value, values[name].n) for name in ("validity", "uniqueness", "novelty")}
    assert shares == {
        "validity": (pytest.approx(6 / 7), 7),
        "uniqueness": (pytest.approx(5 / 6), 6),
        "novelty": (0.0, 6),
    }


def test_files_that_do_not_fit_are_refused(path: Path, tmp_path: Path) -> None:
    generator = torch.Generator()
    other = MoleculeTaskConfig(source=str(path), nodes=6, bonds=7)
    with pytest.raises(InputError, match="has the atoms \\['C', 'N', 'O'\\]"):
        other.make().batch(2, generator)
    with pytest.raises(InputError, match="molecules of 6 atoms and 6 bonds"):
        MoleculeTaskConfig(source=str(path), atoms=ATOMS, nodes=5, bonds=7).make().batch(2, generator)
    missing = config(tmp_path / "none.npz").make()
    with pytest.raises(StorageError, match=r"none\.npz"):
        missing.batch(2, generator)
    assert missing.statistics().sizes.tolist() == pytest.approx([1 / 7] * 7)
    with pytest.raises(InputError, match=r"task\.groups is"):
        MoleculeTaskConfig(groups=(30, 20))
    with pytest.raises(InputError, match=r"task\.nodes is 1"):
        MoleculeTaskConfig(nodes=1)


def catnf(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "catnf", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.mark.parametrize("name", ["graphcnf", "growth"])
def test_train_evaluate_and_sample_commands(name: str, path: Path, tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    small = {
        "node_hidden": 16,
        "edge_hidden": 8,
        "heads": 2,
        **dict.fromkeys(("node_layers", "edge_layers", "pair_layers"), 1),
        **dict.fromkeys(("node_blocks", "edge_blocks", "pair_blocks"), 1),
    }
    settings = [f"--set=model.{field}={value}" for field, value in small.items()]
    settings += [
        f"--set=task.{field}={value}" for field, value in {"source": path, "nodes": 6, "bonds": 7}.items()
    ]
    settings += ["--set=task.atoms=[C, N, O]", "--set=task.groups=[3]"]
    settings += ["--set=training.batch=16", "--set=training.steps=12"]
    train = ("train", f"molecules/zinc250k/{name}", *settings, "-o", "run", "--device=cpu", "--quiet")
    done = catnf(*train, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    done = catnf(
        "evaluate", "run", "--samples=2", "--examples=5", "--generated=50", "--json", folder=tmp_path
    )
    assert done.returncode == 0, done.stderr
    metrics = json.loads(done.stdout)["metrics"]
    assert {"bits_per_node", "bits_bound", "reconstruction", "validity", "validity_largest"} <= set(metrics)
    path.rename(tmp_path / "away.npz")  # a trained model needs no data
    done = catnf("sample", "run", "-n", 20, "--seed=0", folder=tmp_path)
    (tmp_path / "away.npz").rename(path)
    assert done.returncode == 0, done.stderr
    header, *rows = done.stdout.splitlines()
    assert header == "smiles,valid,bits_per_node"
    assert len(rows) == 20


def test_configuration_survives_a_round_trip(path: Path) -> None:
    experiment = Experiment.from_mapping(
        {
            "name": "molecules/mine",
            "task": {**to_mapping(config(path))},
            "model": {"kind": "molecule-graphcnf", "node_hidden": 8, "edge_hidden": 8, "heads": 2},
            "training": {},
        }
    )
    assert Experiment.from_mapping(to_mapping(experiment)) == experiment
    model = experiment.make_model(experiment.make_task(), seed=0)
    assert isinstance(model, GraphCNF)
    assert model.slots == 7
