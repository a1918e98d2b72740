"""Named experiments."""

from __future__ import annotations

import numpy as np
import pytest

from catnf.configuration import to_mapping
from catnf.errors import StorageError
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


def test_those_of_molecules() -> None:
    names = ("moses/graphcnf", "zinc250k/graphcnf", "zinc250k/graphcnf-charged")
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
