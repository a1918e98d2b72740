"""Named experiments: what to learn, with which model, trained how.

An experiment is a YAML file `<task>/<dataset>/<model>.yaml` in this folder, read into dataclasses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from catnf.configuration import apply_overrides, from_mapping, load_yaml, nearest
from catnf.errors import InputError
from catnf.models import Model
from catnf.tasks.coloring import ColoringModelConfig, ColoringTaskConfig
from catnf.tasks.molecules import MoleculeModelConfig, MoleculeTaskConfig
from catnf.tasks.sets import SetModelConfig, SetTaskConfig
from catnf.tasks.table import TableModelConfig, TableTaskConfig
from catnf.tasks.task import Task
from catnf.tasks.text import TextModelConfig, TextTaskConfig
from catnf.training.config import TrainingConfig

__all__ = ["Experiment", "experiment_names", "load_experiment"]

FOLDER = Path(__file__).parent
_RETIRED: dict[str, dict[str, object]] = {"model": {"lanes": 1}}
"""Fields that files of earlier versions may have, each with the value that says nothing."""


@dataclass(frozen=True)
class Experiment:
    """Everything that defines a training but its seed and the machine it runs on."""

    name: str
    task: SetTaskConfig | ColoringTaskConfig | MoleculeTaskConfig | TableTaskConfig | TextTaskConfig
    model: SetModelConfig | ColoringModelConfig | MoleculeModelConfig | TableModelConfig | TextModelConfig
    training: TrainingConfig

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> Experiment:
        """Read an experiment from nested mappings; unknown fields are errors."""
        return from_mapping(cls, values)

    @classmethod
    def from_header(cls, values: Mapping[str, object]) -> Experiment:
        """Read an experiment from the header of a file, which may be of an earlier version."""
        if not isinstance(values, Mapping):  # as a damaged file may have it
            return cls.from_mapping(values)
        kept: dict[str, object] = {}
        for name, part in values.items():
            retired = _RETIRED.get(name, {})
            if isinstance(part, Mapping):
                part = {field: value for field, value in part.items() if retired.get(field, ...) != value}
            kept[name] = part
        return cls.from_mapping(kept)

    def __post_init__(self) -> None:
        # The name becomes part of paths.
        if not self.name or self.name.startswith("/") or ".." in self.name.split("/"):
            raise InputError(f"name is {self.name!r}; give a plain name such as sets/shuffling/mine.")

    def make_task(self) -> Task:
        """The source of data."""
        return self.task.make()

    def make_model(self, task: Task, seed: int) -> Model:
        """A freshly initialized model on the CPU; the same for the same seed, whatever was drawn before."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            return self.model.make(task)


def experiment_names() -> list[str]:
    """All names, sorted."""
    return sorted(str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.rglob("*.yaml"))


def load_experiment(name: str, overrides: Sequence[str] = ()) -> Experiment:
    """A named experiment, or one from a YAML file, with overrides such as `model.mixtures=16`."""
    own = Path(name)
    if own.suffix in (".yaml", ".yml"):
        values, title = load_yaml(own), own.stem
    elif name in experiment_names():
        values, title = load_yaml(FOLDER / f"{name}.yaml"), name
    else:
        hint = nearest(name, experiment_names()) or " `catnf list` names those there are."
        raise InputError(f"There is no experiment {name!r}.{hint}")
    return Experiment.from_mapping(apply_overrides({"name": title, **values}, overrides))
