"""Measuring models for the paper's tables: the bundled ones, or new ones trained from scratch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import torch

from catnf.errors import CatnfError, InputError, StorageError
from catnf.evaluation import (
    Evaluation,
    EvaluationOptions,
    evaluate_likelihood,
    evaluate_samples,
    with_optimum,
)
from catnf.experiments import load_experiment
from catnf.fitted import FittedModel, load
from catnf.reference import Result, Results
from catnf.results import record, write_result
from catnf.tasks.coloring.data import PLANS, GraphColoring, dataset_path
from catnf.tasks.coloring.generation import DataPlan, make_dataset
from catnf.training.options import RunOptions
from catnf.training.run import train

_DRAWS = 20
_FEWER_DRAWS = {"coloring": 4, "molecules": 4, "text": 4}  # where one takes long

Tell = Callable[[str], None]


@dataclass(frozen=True)
class MeasuringOptions:
    """How much to measure."""

    examples: int = 64  # of the test split that are scored
    samples: int | None = None  # draws of the importance-weighted bound; by default what suits the task
    generated: int = 256  # samples that are drawn and looked at
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def of(self, experiment: str) -> EvaluationOptions:
        """For one experiment: on test data, without what takes minutes."""
        usual = _FEWER_DRAWS.get(experiment.split("/")[0], _DRAWS)
        draws = usual if self.samples is None else self.samples
        return EvaluationOptions("test", self.examples, draws, self.generated, thorough=False)


@dataclass(frozen=True)
class TrainingPlan:
    """How models are trained from scratch."""

    folder: Path  # of all runs; what is trained stays there, and is not trained again
    budget: float | None = None  # seconds a model; by default all steps of the experiment
    seeds: int = 1
    overrides: Sequence[str] = ()
    quiet: bool = False

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise InputError(f"seeds is {self.seeds}; give at least 1.")
        RunOptions(self.folder, budget=self.budget).check()


@dataclass(frozen=True)
class Findings:
    """What was measured here.

    Attributes:
        results: by experiment.
        why: for experiments of which something was not measured, the reason.
    """

    results: Results
    why: dict[str, str]


def measure_bundled(
    names: Sequence[str], options: MeasuringOptions, command: str, tell: Tell = lambda text: None
) -> Findings:
    """Measure bundled models on test data, and their samples."""
    found: dict[str, Result] = {}
    why: dict[str, str] = {}
    for name in names:
        tell(f"Measuring {name} ...")
        fitted = load(name, options.device)
        outcome, reasons = _outcome(fitted, options, command)
        if reasons:
            why[name] = " ".join(reasons)
        if outcome is not None:
            found[name] = outcome
    return Findings(Results(found), why)


def measure_trained(
    names: Sequence[str],
    options: MeasuringOptions,
    plan: TrainingPlan,
    command: str,
    tell: Tell = lambda text: None,
) -> Findings:
    """Train experiments from scratch, every seed of each, and measure them.

    A model that cannot be trained here, for instance because its data are missing, is left out with the
    reason; where none can, the first reason is raised. Ctrl-C stops with `KeyboardInterrupt`; the same call
    goes on from there.
    """
    found: dict[str, Result] = {}
    why: dict[str, str] = {}
    first: CatnfError | None = None
    device: Literal["cuda", "cpu"] = "cuda" if options.device.type == "cuda" else "cpu"
    for name in names:
        try:
            experiment = load_experiment(name, plan.overrides)
            for seed in range(plan.seeds):
                tell(f"Training {name}, seed {seed} ...")
                folder = plan.folder / name / f"seed-{seed}"
                run = RunOptions(folder, seed, device, budget=plan.budget, quiet=plan.quiet)
                if train(experiment, run).interrupted:
                    raise KeyboardInterrupt
                outcome, reasons = _outcome(load(folder, options.device), options, command)
                if reasons:
                    why[name] = " ".join(reasons)
                if outcome is not None:
                    path = write_result(plan.folder / "results", name, outcome, seed)
                    found[name] = Results.of_folder(path.parent)[path.stem]
        except CatnfError as error:
            first = first or error
            why[name] = f"{name}: {error}"
    if first is not None and not found:
        raise first
    return Findings(Results(found), why)


def _outcome(
    fitted: FittedModel, options: MeasuringOptions, command: str
) -> tuple[dict[str, object] | None, list[str]]:
    """A result as it is stored, of what can be measured here, and why the rest cannot."""
    name = fitted.experiment.name
    wanted = options.of(name)
    parts: list[Evaluation] = []
    why = []
    with TemporaryDirectory() as folder:
        try:
            fitted = _with_graphs(fitted, wanted, Path(folder))
        except CatnfError as error:
            return None, [f"{name}: {error}"]
        try:
            parts.append(evaluate_likelihood(fitted, wanted))
        except CatnfError as error:
            why.append(f"{name}, likelihood: {error}")
        if wanted.generated:
            try:
                parts.append(evaluate_samples(fitted, wanted))
            except CatnfError as error:
                why.append(f"{name}, samples: {error}")
    if not parts:
        return None, why
    whole = parts[0] if len(parts) == 1 else parts[0].joined(parts[1])
    return record(fitted, with_optimum(whole, fitted), command), why


def _with_graphs(fitted: FittedModel, wanted: EvaluationOptions, folder: Path) -> FittedModel:
    """A coloring model whose test graphs are there.

    Where the data set is not, only the first of its test graphs are made: every graph has a seed of its own,
    so that these are the same.
    """
    task = fitted.task
    if not isinstance(task, GraphColoring) or task.size not in PLANS:
        return fitted
    try:
        dataset_path(task.size)
    except StorageError:
        plan = PLANS[task.size]
        count = min(max(wanted.examples, wanted.generated), plan.counts[2])
        path = folder / "graphs.npz"
        make_dataset(path, DataPlan(plan.graphs, (1, 1, count), plan.seed), workers=1)
        return replace(fitted, task=replace(task, size=str(path)))
    return fitted
