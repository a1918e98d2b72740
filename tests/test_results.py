"""Results as data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from catnf.configuration import to_mapping
from catnf.errors import StorageError
from catnf.experiments import load_experiment
from catnf.fitted import FittedModel, load
from catnf.results import check_result, write_result


def outcome(seed: int, bits: float, **more: float) -> dict[str, object]:
    return {
        "experiment": "sets/shuffling/mixture",
        "metrics": {"bits_per_variable": bits, **more},
        "intervals": {"bits_per_variable": [bits - 0.1, bits + 0.1]},
        "n": {"bits_per_variable": 512},
        "split": "test",
        "seeds": [seed],
        "hardware": "a machine",
        "seconds": 1.5,
        "revision": "abc",
        "command": f"catnf evaluate runs/{seed}",
        "config": {"model": {"hidden": 192}},
    }


def write(folder: Path, seed: int, bits: float, **more: float) -> dict[str, object]:
    path = write_result(folder, "sets/shuffling/mixture", outcome(seed, bits, **more), seed)
    assert path == folder / "sets" / "shuffling" / "mixture.json"
    return json.loads(path.read_text())


def test_one_seed(tmp_path: Path) -> None:
    got = write(tmp_path, 0, 2.8)
    assert got["metrics"] == {"bits_per_variable": 2.8}
    assert got["intervals"] == {"bits_per_variable": [2.8 - 0.1, 2.8 + 0.1]}
    assert got["seeds"] == [0]
    for name in ("experiment", "n", "hardware", "seconds", "revision", "command"):
        assert got[name] == outcome(0, 2.8)[name], "every result names where it comes from"


def test_several_seeds_give_mean_and_range(tmp_path: Path) -> None:
    for seed, bits in ((10, 2.9), (2, 2.7), (0, 2.8)):
        got = write(tmp_path, seed, bits)
    assert got["seeds"] == [0, 2, 10]
    assert got["metrics"] == {"bits_per_variable": pytest.approx(2.8)}
    assert got["intervals"]["bits_per_variable"] == pytest.approx([2.8 - 0.1, 2.8 + 0.1])
    assert got["ranges"] == {"bits_per_variable": [2.7, 2.9]}
    runs = got["runs"]
    assert isinstance(runs, list)
    assert [run["metrics"]["bits_per_variable"] for run in runs] == [2.8, 2.7, 2.9]


def test_intervals_of_shares_stay_shares(tmp_path: Path) -> None:
    for seed, (share, ends) in enumerate(((1.0, [0.96, 1.0]), (0.98, [0.92, 0.99]))):
        told = outcome(seed, 2.8, validity=share)
        told["intervals"] = {"validity": ends}
        path = write_result(tmp_path, "sets/shuffling/mixture", told, seed)
        assert json.loads(path.read_text())["intervals"]["validity"][1] <= 1.0
    assert json.loads(path.read_text())["intervals"] == {"validity": pytest.approx([0.94, 0.995])}


def test_a_seed_measured_again_replaces_itself(tmp_path: Path) -> None:
    write(tmp_path, 0, 2.8)
    got = write(tmp_path, 0, 2.6)
    assert (got["seeds"], got["metrics"]) == ([0], {"bits_per_variable": 2.6})


@pytest.fixture(scope="module")
def fitted() -> FittedModel:
    return load("sets/shuffling/mixture")


@pytest.mark.parametrize("told", ["weights", "training"])
def test_figures_of_other_weights_are_not_replaced(tmp_path: Path, fitted: FittedModel, told: str) -> None:
    """By `catnf evaluate --results`; what was written before weights were told has its training."""
    own = {"weights": fitted.digest(), "training": dict(fitted.provenance)}[told]
    config = to_mapping(fitted.experiment)
    path = write_result(tmp_path, fitted.experiment.name, {**outcome(0, 2.8), "config": config, told: own}, 0)
    check_result(tmp_path, fitted, "test")
    check_result(tmp_path / "fresh", fitted, "test")
    write_result(tmp_path, fitted.experiment.name, {**outcome(0, 2.8), "config": config, told: "other"}, 0)
    before = path.read_text()
    with pytest.raises(
        StorageError, match=r"mixture\.json holds figures of other weights of seed 0; move it"
    ):
        check_result(tmp_path, fitted, "test")
    assert path.read_text() == before
    write_result(tmp_path, fitted.experiment.name, {**outcome(1, 2.8), "config": config}, 1)
    with pytest.raises(StorageError, match="holds figures of the test split"):
        check_result(tmp_path, fitted, "validation")


def test_only_metrics_that_all_seeds_have_are_averaged(tmp_path: Path) -> None:
    write(tmp_path, 0, 2.8)
    assert write(tmp_path, 1, 2.6, validity=0.5)["metrics"] == {"bits_per_variable": pytest.approx(2.7)}


def test_splits_are_not_mixed(tmp_path: Path) -> None:
    write(tmp_path, 0, 2.8)
    other = {**outcome(1, 2.7), "split": "validation"}
    with pytest.raises(StorageError, match="holds figures of the test split"):
        write_result(tmp_path, "sets/shuffling/mixture", other, 1)


def test_configurations_are_not_mixed(tmp_path: Path) -> None:
    write(tmp_path, 0, 2.8)
    other = {"config": {"model": {"hidden": 256}}}
    with pytest.raises(StorageError, match="holds figures of another configuration; move it away"):
        write_result(tmp_path, "sets/shuffling/mixture", outcome(1, 2.7) | other, 1)
    path = write_result(tmp_path, "sets/shuffling/mixture", outcome(0, 2.7) | other, 0)
    assert json.loads(path.read_text())["metrics"] == {"bits_per_variable": 2.7}, "its own is replaced"


@pytest.mark.parametrize("content", ["not json", "[1, 2]", '{"metrics": {}}', '{"runs": [3]}'])
def test_a_file_of_something_else_is_refused_and_kept(tmp_path: Path, content: str) -> None:
    path = tmp_path / "sets" / "shuffling" / "mixture.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(StorageError, match=r"mixture\.json cannot be read as results"):
        write(tmp_path, 0, 2.8)
    assert path.read_text() == content


def test_fields_that_are_new_since_do_not_make_another_configuration(tmp_path: Path) -> None:
    now = to_mapping(load_experiment("coloring/small/graphcnf", ["model.expansion=2"]))
    assert isinstance(now["model"], dict)
    before = {**now, "model": {name: value for name, value in now["model"].items() if name != "expansion"}}
    name = "coloring/small/graphcnf"
    write_result(tmp_path, name, {**outcome(0, 0.7), "config": before}, 0)
    write_result(tmp_path, name, {**outcome(1, 0.6), "config": now}, 1)
    other = {**now, "model": {**now["model"], "expansion": 1}}
    with pytest.raises(StorageError, match="another configuration"):
        write_result(tmp_path, name, {**outcome(2, 0.6), "config": other}, 2)
