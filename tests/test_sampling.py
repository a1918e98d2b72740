"""Molecules drawn in one place and measured in another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

pytest.importorskip("rdkit", reason="needs RDKit")

from catnf.errors import InputError, StorageError
from catnf.evaluation import EvaluationOptions, evaluate_likelihood, evaluate_samples
from catnf.experiments import Experiment
from catnf.fitted import FittedModel, load, save_model
from catnf.molecules import stream_molecules
from catnf.sampling import SampledGraphs, SamplingOptions, drawing_model
from catnf.tasks.molecules import MolecularGraph, Molecules
from catnf.tasks.molecules.archive import MoleculeData

LAYERS = ("node_layers", "edge_layers", "pair_layers", "node_blocks", "edge_blocks", "pair_blocks")
NETWORK = {"node_hidden": 16, "edge_hidden": 8, "heads": 2} | dict.fromkeys(LAYERS, 1)
SPLITS = {
    "train": ["CO", "CN", "C=O", "OCO", "CCO", "C1CC1"],
    "validation": ["CCN", "C1CN1", "CO", "OO"],
    "test": ["CCC", "C1CO1", "NO", "C#N", "COC"],
}
NO_CHEMISTRY = (
    "import sys; sys.modules['rdkit'] = None; sys.modules['fcd_torch'] = None; "
    "from catnf.cli import main; main()"
)


class Outcome(NamedTuple):
    code: object
    out: str
    err: str


Catnf = Callable[..., Outcome]
Pack = Callable[[Path, Mapping[str, Sequence[str]]], Path]


def without_chemistry(*arguments: object, folder: Path) -> Outcome:
    """Runs the command line in a process that can import neither RDKit nor fcd_torch."""
    command = [sys.executable, "-c", NO_CHEMISTRY, *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)
    return Outcome(done.returncode, done.stdout, done.stderr)


def assert_refused(done: Outcome, *fragments: str) -> None:
    assert (done.code, done.out) == (2, "")
    line = done.err.splitlines()[-1]
    assert line.startswith("catnf: ")
    assert "Traceback" not in done.err
    for fragment in fragments:
        assert fragment in line


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, pack_molecules: Pack) -> Path:
    """The file of a model that has learned nothing yet, but knows how large its molecules are."""
    folder = tmp_path_factory.mktemp("model")
    data = pack_molecules(folder / "some.npz", SPLITS)
    values = {
        "name": "molecules/some",
        "task": {"kind": "molecules", "source": str(data), "nodes": 3, "bonds": 3},
        "model": {"kind": "molecule-graphcnf", **NETWORK},
        "training": {},
    }
    experiment = Experiment.from_mapping(values)
    weights = experiment.make_model(experiment.make_task(), seed=0).state_dict()
    save_model(folder / "model.safetensors", weights, experiment, 0, {})
    return folder / "model.safetensors"


@pytest.fixture(scope="module")
def fitted(model: Path) -> FittedModel:
    return load(model)


def key(graph: MolecularGraph) -> tuple[bytes, list[list[int]]]:
    return graph.atoms.tobytes(), sorted(graph.bonds.tolist())


def test_graphs_come_back_from_their_file(fitted: FittedModel, tmp_path: Path) -> None:
    done: list[int] = []
    drawn = SampledGraphs.draw(fitted, SamplingOptions(300, seed=5, temperature=0.8), progress=done.append)
    assert done == [256, 44]
    drawn.save(tmp_path / "new" / "graphs.npz", fitted)
    back = SampledGraphs.load([tmp_path / "new" / "graphs.npz"], fitted)
    assert dict(back.about) == dict(drawn.about)
    assert (back.about["n"], back.about["temperature"], back.about["seed"]) == (300, 0.8, 5)
    assert back.about["seconds"] > 0
    assert back.about["hardware"]
    assert back.about["experiment"] == "molecules/some"
    x, ctx = back.tensors(fitted)
    assert isinstance(fitted.task, Molecules)
    chunks = stream_molecules(fitted, SamplingOptions(300, seed=5, temperature=0.8))
    same = [molecule.graph for chunk in chunks for molecule in chunk.molecules]
    assert [key(g) for g in fitted.task.graphs(x, ctx)] == [key(g) for g in same], "as `catnf sample` draws"
    with np.load(tmp_path / "new" / "graphs.npz", allow_pickle=False) as arrays:  # no pickles
        assert all(arrays[name].dtype == np.uint8 for name in arrays.files)


def test_networks_in_bfloat16_draw_nearly_the_same() -> None:
    fitted = load("molecules/zinc250k/growth-small")
    low = fitted.in_bfloat16()
    before, after = (model.sample(24, seed=5) for model in (fitted, low))
    assert fitted.device == low.device
    assert all(p.dtype.itemsize == 4 for p in fitted.model.parameters()), "a copy"
    assert any(p.dtype.itemsize == 2 for p in low.model.parameters())
    # Where a bond comes out differently, all that follows does too.
    assert (before == after).all(1).float().mean() > 0.3
    assert drawing_model(fitted) is fitted, "a CPU is no faster in bfloat16"


def test_without_a_seed_the_one_taken_is_told(fitted: FittedModel) -> None:
    first, second = (SampledGraphs.draw(fitted, SamplingOptions(20)) for _ in range(2))
    assert first.about["seed"] != second.about["seed"]
    again = SampledGraphs.draw(fitted, SamplingOptions(20, first.about["seed"]))
    assert [key(graph) for graph in again.archive] == [key(graph) for graph in first.archive]


def test_files_that_do_not_belong_are_refused(fitted: FittedModel, model: Path, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.npz" for name in ("one", "two", "warm")]
    options = [SamplingOptions(9, 0), SamplingOptions(9, 0, process=1), SamplingOptions(9, 1, 2.0)]
    for path, some in zip(paths, options, strict=True):
        SampledGraphs.draw(fitted, some).save(path, fitted)
    both = SampledGraphs.load(paths[:2], fitted)
    assert (len(both.archive), both.about["n"], both.about["files"]) == (18, 18, 2)
    with pytest.raises(InputError, match=r"one\.npz holds samples that another"):
        SampledGraphs.load([paths[0], paths[0]], fitted)
    with pytest.raises(InputError, match="several temperatures"):
        SampledGraphs.load([paths[0], paths[2]], fitted)
    with pytest.raises(StorageError, match=r"some\.npz holds no samples"):
        SampledGraphs.load([model.with_name("some.npz")], fitted)
    weights = fitted.experiment.make_model(fitted.task, seed=1).state_dict()
    save_model(tmp_path / "other.safetensors", weights, fitted.experiment, 1, {})
    with pytest.raises(InputError, match=r"one\.npz was drawn from other weights, of molecules/some"):
        SampledGraphs.load(paths[:1], load(tmp_path / "other.safetensors"))
    assert fitted.digest() == load(model).digest() != load(tmp_path / "other.safetensors").digest()


def test_two_machines_end_in_one_result(run_catnf: Catnf, model: Path, tmp_path: Path) -> None:
    sample = ("sample", model, "-n", 60, "--seed=3", "--graphs=graphs.npz", "--device=cpu", "--json")
    done = without_chemistry(*sample, folder=tmp_path)
    assert done.code == 0, done.err
    assert json.loads(done.out)["n"] == 60
    score = ("--split=test", "--examples=5", "--samples=3", "--seed=4", "--device=cpu")
    done = without_chemistry("evaluate", model, *score, "--generated=0", "--json", folder=tmp_path)
    assert done.code == 0, done.err
    (tmp_path / "eval.json").write_text(done.out)
    files = ("--sampled=graphs.npz", "--likelihood=eval.json", "--results=results")
    done = run_catnf("evaluate", model, "--split=test", *files, "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    fitted = load(model)
    drawn = SampledGraphs.load([tmp_path / "graphs.npz"], fitted)
    options = EvaluationOptions("test", 5, 3, seed=4)
    here = evaluate_likelihood(fitted, options).joined(
        evaluate_samples(fitted, options, drawn.tensors(fitted))
    )
    assert told["metrics"] == pytest.approx(here.metrics)
    assert told["n"] == here.n
    assert told["protocols"] == here.protocols
    assert set(told["protocols"]) == set(told["metrics"]) - {"bits_per_node", "bits_bound", "reconstruction"}
    shares = {name for name in told["metrics"] if name.startswith(("validity", "uniqueness", "novelty"))}
    assert set(told["intervals"]) == {"bits_per_node", "bits_bound", "filters", *shares}
    assert told["parts"]["samples"] == dict(drawn.about)
    assert "--generated=0" in told["parts"]["likelihood"]["command"]
    stored = json.loads((tmp_path / "results" / "molecules" / "some.json").read_text())
    assert stored["metrics"] == told["metrics"]
    assert stored["protocols"] == told["protocols"]
    assert stored["runs"] == [told]


def test_without_rdkit_samples_cannot_be_measured(model: Path, tmp_path: Path) -> None:
    done = without_chemistry("evaluate", model, "--device=cpu", folder=tmp_path)
    assert_refused(done, "pip install 'catnf[chem]'", "--generated 0")


def test_every_process_writes_graphs_of_its_own(
    run_catnf: Catnf, model: Path, fitted: FittedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        done = run_catnf("sample", model, "-n", 5, "--seed=1", "--device=cpu", "--graphs=out/graphs.npz")
        assert (done.code, done.out) == (0, ""), done.err
    shards = [tmp_path / "out" / f"graphs-0000{number}-of-00002.npz" for number in (1, 2)]
    assert sorted((tmp_path / "out").iterdir()) == shards
    assert [len(MoleculeData.load(path).splits["samples"]) for path in shards] == [3, 2]
    assert len(SampledGraphs.load(shards, fitted).archive) == 5
    monkeypatch.delenv("WORLD_SIZE")
    options = [f"--sampled={path}" for path in shards]
    done = run_catnf("evaluate", model, *options, "--examples=2", "--samples=1", "--json")
    assert json.loads(done.out)["n"]["validity"] == 5
    assert json.loads(done.out)["parts"]["samples"]["files"] == 2


def test_ctrl_c_leaves_nothing(
    run_catnf: Catnf, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*arguments: object) -> SampledGraphs:
        raise KeyboardInterrupt

    monkeypatch.setattr(SampledGraphs, "draw", stopped)
    done = run_catnf("sample", model, "--graphs=graphs.npz")
    assert (done.code, done.out) == (130, "")
    assert "nothing is written" in done.err
    assert not list(tmp_path.iterdir())


def test_options_that_exclude_each_other(run_catnf: Catnf, model: Path, tmp_path: Path) -> None:
    (tmp_path / "eval.json").write_text('{"metrics": {}}')
    sets = "sets/shuffling/mixture"
    for arguments, fragment in (
        (("sample", model, "--graphs=graphs.csv"), "give a name that ends in .npz"),
        (("sample", model, "--graphs=graphs.npz", "--largest"), "plain graphs only"),
        (("sample", model, "--graphs=graphs.npz", "-o", "out.csv"), "plain graphs only"),
        (("sample", sets, "--graphs=graphs.npz"), "--graphs is for molecules"),
        (("evaluate", model, "--sampled=graphs.npz", "--generated=5"), "leave out --generated"),
        (("evaluate", model, "--likelihood=eval.json", "--examples=5"), "leave out --examples"),
        (("evaluate", model, "--likelihood=eval.json"), "holds no likelihoods of this model"),
        (("evaluate", model, "--likelihood=none.json"), "none.json cannot be read"),
        (("evaluate", model, "--sampled=graphs.npz"), "make it by catnf sample MODEL --graphs graphs.npz"),
        (("evaluate", sets, "--sampled=graphs.npz"), "knows no molecules"),
    ):
        assert_refused(run_catnf(*arguments), fragment)


def test_likelihoods_of_something_else_are_refused(run_catnf: Catnf, model: Path, tmp_path: Path) -> None:
    score = ("--examples=2", "--samples=1", "--generated=0", "--json")
    told = json.loads(run_catnf("evaluate", model, *score).out)
    (tmp_path / "eval.json").write_text(json.dumps(told))
    done = run_catnf("evaluate", model, "--likelihood=eval.json", "--split=test", "--generated=0")
    assert_refused(done, "measured on the validation split")
    (tmp_path / "eval.json").write_text(json.dumps(told | {"weights": "0" * 64}))
    done = run_catnf("evaluate", model, "--likelihood=eval.json", "--generated=0")
    assert_refused(done, "measured with other weights")
