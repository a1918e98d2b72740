"""Named experiments."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from catnf.configuration import to_mapping
from catnf.errors import InputError, StorageError
from catnf.experiments import Experiment, experiment_names, load_experiment
from catnf.tasks.molecules import Molecules
from catnf.tasks.molecules.archive import MoleculeData
from catnf.tasks.molecules.sources import dataset_path

MOLECULES = [name for name in experiment_names() if name.startswith("molecules/")]


@pytest.mark.parametrize("name", experiment_names())
def test_it_loads_and_survives_a_round_trip(name: str) -> None:
    experiment = load_experiment(name)
    assert experiment.name == name
    assert Experiment.from_mapping(to_mapping(experiment)) == experiment
    assert name.startswith(experiment.make_task().name)


@pytest.mark.parametrize("kind", ["graphcnf", "graph-vae", "molecule-growth", "table-mixture", "text-flow"])
def test_models_of_something_else_are_refused(kind: str) -> None:
    experiment = load_experiment("sets/shuffling/mixture", [f"model={{kind: {kind}}}"])
    with pytest.raises(InputError, match=rf"Model {kind} is for .*, but sets/shuffling .*; choose another"):
        experiment.make_model(experiment.make_task(), seed=0)


def test_models_of_sets_are_refused_elsewhere() -> None:
    experiment = load_experiment("text/text8/mixture", ["model={kind: mixture}"])
    with pytest.raises(
        InputError, match=r"Model mixture is for sets, but text/text8 has none; choose another"
    ):
        experiment.make_model(experiment.make_task(), seed=0)


@pytest.mark.parametrize("corpus", ["ptb", "text8", "text8-words", "wikitext2"])
def test_latent_nf_of_texts_differs_by_its_encoding_alone(corpus: str) -> None:
    mixture, latent = (to_mapping(load_experiment(f"text/{corpus}/{name}")) for name in ("mixture", "latent"))
    assert mixture["task"] == latent["task"]
    schedule = {"reconstruction_start", "reconstruction_hold", "reconstruction_half_life"}
    for part, allowed in (("model", {"kind"}), ("training", schedule)):
        assert {key for key in latent[part] if latent[part][key] != mixture[part][key]} <= allowed


def test_those_of_molecules() -> None:
    names = (
        "moses/graphcnf",
        "moses/growth",
        "moses/growth-small",
        "zinc250k/graphcnf",
        "zinc250k/graphcnf-charged",
        "zinc250k/growth",
        "zinc250k/growth-charged",
        "zinc250k/growth-small",
    )
    assert [f"molecules/{name}" for name in names] == MOLECULES


@pytest.mark.parametrize("name", MOLECULES)
def test_molecules_fit_their_data(name: str) -> None:
    """Atoms, sizes and groups are those of the file that `catnf data molecules` makes."""
    task = load_experiment(name).make_task()
    assert isinstance(task, Molecules)
    try:
        path = dataset_path(task.source, task.kind)
    except StorageError:
        pytest.skip("needs the prepared molecules in CATNF_DATA")
    data = MoleculeData.load(path, names=())
    assert data.vocabulary == task.vocabulary
    assert [task.nodes, task.bonds] == data.about["largest"]
    with np.load(path) as arrays:  # the sizes only: all molecules of MOSES take seconds
        sizes = arrays["train/sizes"]
    for low, high in zip((0, *task.groups), task.groups, strict=False):
        assert ((low < sizes) & (sizes <= high)).mean() > 0.1, "no group is idle"


TEXT = [name for name in experiment_names() if name.startswith("text/")]


def test_those_of_text() -> None:
    corpora, models = ("ptb", "text8", "text8-words", "wikitext2"), ("mixture", "lstm", "latent")
    wanted = {f"text/{c}/{m}" for c in corpora for m in (*models, "transformer", "parallel")}
    assert wanted <= set(TEXT)


@pytest.mark.parametrize("name", [name for name in TEXT if "words" not in name and "wikitext" not in name])
def test_models_of_characters_need_no_data(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CATNF_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    small = ["model.hidden=16", "model.heads=2", "model.encoder_hidden=8", "model.blocks=1", "model.layers=1"]
    experiment = load_experiment(name, small)
    model = experiment.make_model(experiment.make_task(), seed=0)
    assert model.categories == {"ptb": 51, "text8": 27}[name.split("/")[1]]


def test_files_of_earlier_versions_are_read() -> None:
    """Fields that are gone are passed over where they say nothing, and only in files."""
    mapping = to_mapping(load_experiment("text/text8/mixture"))
    model = mapping["model"]
    assert isinstance(model, dict)
    earlier = {**mapping, "model": {**model, "lanes": 1}}
    assert Experiment.from_header(earlier) == Experiment.from_mapping(mapping)
    with pytest.raises(InputError, match="Unknown field 'lanes' in model"):
        Experiment.from_mapping(earlier)
    with pytest.raises(InputError, match="Unknown field 'lanes' in model"):
        Experiment.from_header({**mapping, "model": {**model, "lanes": 8}})
    with pytest.raises(InputError, match="a mapping of fields"):
        Experiment.from_header("nonsense")  # type: ignore[arg-type]
