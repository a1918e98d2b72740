"""Graphs of molecules drawn from a model, and a file of them: no chemistry is needed for either.

So that a machine with GPUs can draw what another one, with RDKit, measures.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from catnf.context import Context
from catnf.errors import InputError, StorageError
from catnf.fitted import FittedModel
from catnf.models.model import check_temperature
from catnf.provenance import hardware, revision
from catnf.seeds import check_seed, derived_seed
from catnf.tasks.molecules import Molecules
from catnf.tasks.molecules.archive import MoleculeArchive, MoleculeData
from catnf.tasks.molecules.data import Tables
from catnf.tasks.molecules.vocabulary import MolecularGraph

_AT_ONCE = {"cuda": 5120, "cpu": 256}  # molecules that are drawn at once; other numbers give other samples
_SPLIT = "samples"  # of the file


@dataclass(frozen=True)
class SamplingOptions:
    """Which molecules to draw."""

    count: int = 10
    seed: int | None = None  # for the same ones again, on the same kind of device
    temperature: float = 1.0  # 1 is the model itself
    largest: bool = False  # of every sample the largest connected fragment only
    valid_only: bool = False  # go on until `count` are valid, and drop the others
    process: int = 0  # of several that share the work, each with seeds of its own

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InputError(f"The number of samples is {self.count}; give at least 1.")
        check_seed(self.seed)
        check_temperature(self.temperature)

    def seeded(self) -> SamplingOptions:
        """The same options with a seed: a random one where none is given."""
        return self if self.seed is not None else replace(self, seed=secrets.randbits(32))


def molecule_task(fitted: FittedModel) -> Molecules:
    """The task of a model of molecules, or `InputError` where it is one of something else."""
    if not isinstance(fitted.task, Molecules):
        raise InputError(f"{fitted.experiment.name} knows no molecules; choose a model of molecules/...")
    return fitted.task


def most_at_once(fitted: FittedModel) -> int:
    """How many graphs to draw at once."""
    return _AT_ONCE.get(fitted.device.type, _AT_ONCE["cpu"])


def drawing_model(fitted: FittedModel) -> FittedModel:
    """The model as it draws: on a GPU with networks in bfloat16, as they were trained; elsewhere itself."""
    return fitted.in_bfloat16() if fitted.device.type == "cuda" else fitted


def draw_piece(
    fitted: FittedModel, options: SamplingOptions, number: int, size: int
) -> tuple[list[MolecularGraph], int]:
    """The piece of that `number`, of `size` graphs, and the seed it was drawn with."""
    assert options.seed is not None
    seed = derived_seed(options.seed, options.process, number)
    ctx = fitted.sample_context(size, seed)
    x = fitted.sample(size, seed, options.temperature, chunk=size, ctx=ctx)
    return molecule_task(fitted).graphs(x, ctx.to("cpu")), seed


@dataclass(frozen=True)
class SampledGraphs:
    """Graphs that a model drew.

    Attributes:
        archive: the graphs; nobody has looked whether they are valid, so that none is marked as such.
        about: the model that drew them and its `weights`, `temperature`, `seed`, the `seconds` that drawing
            took and on which `hardware`, as JSON.
    """

    archive: MoleculeArchive
    about: Mapping[str, Any]

    @classmethod
    def draw(
        cls,
        fitted: FittedModel,
        options: SamplingOptions,
        command: str = "",
        progress: Callable[[int], None] = lambda count: None,
    ) -> SampledGraphs:
        """Draw graphs: the same ones that `stream_molecules` draws for the same seed.

        Args:
            fitted: a model of molecules.
            options: how many, and how; neither the largest fragments nor the valid ones only, which are
                questions of chemistry.
            command: what was typed, to be told in `about`.
            progress: called with the number of further graphs.
        """
        options = options.seeded()
        parts = []
        start = time.monotonic()
        model = drawing_model(fitted)
        for number, size in enumerate(_sizes(options.count, most_at_once(fitted))):
            graphs, _ = draw_piece(model, options, number, size)
            parts.append(MoleculeArchive.pack(graphs, np.zeros(len(graphs), dtype=bool)))
            progress(size)
        about = {
            "experiment": fitted.experiment.name,
            "weights": fitted.digest(),
            "n": options.count,
            "temperature": options.temperature,
            "seed": options.seed,
            "process": options.process,
            "seconds": round(time.monotonic() - start, 3),
            "hardware": hardware(fitted.device),
            "revision": revision(),
            "command": command,
        }
        return cls(MoleculeArchive.join(parts), about)

    def save(self, path: Path, fitted: FittedModel) -> None:
        """Write a compact `.npz` file, all or nothing."""
        vocabulary = molecule_task(fitted).vocabulary
        MoleculeData(vocabulary, {_SPLIT: self.archive}, self.about).save(path)

    @classmethod
    def load(cls, paths: Sequence[Path], fitted: FittedModel) -> SampledGraphs:
        """Read what this model drew, from one file or from those of several processes."""
        task, weights = molecule_task(fitted), fitted.digest()
        parts: dict[tuple[object, object], SampledGraphs] = {}
        for path in paths:
            if not path.exists():
                raise StorageError(f"There is no file {path}; make it by catnf sample MODEL --graphs {path}.")
            data = MoleculeData.load(path)
            if set(data.splits) != {_SPLIT} or not {"weights", "temperature", "seconds"} <= data.about.keys():
                raise StorageError(f"{path} holds no samples; give a file of catnf sample MODEL --graphs.")
            if data.about["weights"] != weights or data.vocabulary != task.vocabulary:
                raise InputError(
                    f"{path} was drawn from other weights, of {data.about.get('experiment')}; give the model "
                    "that drew it."
                )
            own = cls(data.splits[_SPLIT], data.about)
            if parts.setdefault((own.about.get("seed"), own.about.get("process")), own) is not own:
                raise InputError(f"{path} holds samples that another of the files holds too; give each once.")
        some = list(parts.values())
        if len({own.about["temperature"] for own in some}) != 1:
            raise InputError("The files of samples are of several temperatures; measure those of one.")
        longest = max(some, key=lambda own: float(own.about["seconds"]))
        total = sum(len(own.archive) for own in some)
        about = dict(longest.about) if len(some) == 1 else {**longest.about, "n": total, "files": len(some)}
        return cls(MoleculeArchive.join([own.archive for own in some]), about)

    def tensors(self, fitted: FittedModel) -> tuple[Tensor, Context]:
        """The graphs `[batch, nodes + pairs]` as the model gave them, with their context."""
        task = molecule_task(fitted)
        return Tables.of(self.archive, task.nodes, task.bonds).take(slice(None), task.nodes)


def _sizes(count: int, most: int) -> Iterator[int]:
    """Sizes of pieces, the last one maybe smaller.

    >>> list(_sizes(600, 256))
    [256, 256, 88]
    """
    while count > 0:
        yield min(count, most)
        count -= most
