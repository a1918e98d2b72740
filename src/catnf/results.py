"""Results as data: what was measured, with everything needed to measure it again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from catnf.configuration import to_mapping
from catnf.errors import InputError, StorageError
from catnf.evaluation import Evaluation, likelihood_names
from catnf.experiments import Experiment
from catnf.fitted import FittedModel
from catnf.provenance import hardware, revision
from catnf.storage import write_text
from catnf.tasks.task import Split


def record(
    fitted: FittedModel,
    evaluation: Evaluation,
    command: str,
    parts: Mapping[str, Mapping[str, object]] | None = None,
) -> dict[str, object]:
    """The outcome of an evaluation as a JSON object.

    Args:
        fitted: the model.
        evaluation: what was measured.
        command: what was typed.
        parts: by `likelihood` or `samples`, where these come from if not from here.
    """
    told: dict[str, object] = {
        "experiment": fitted.experiment.name,
        "metrics": evaluation.metrics,
        "intervals": {name: list(ends) for name, ends in evaluation.intervals.items()},
        "n": evaluation.n,
        "split": evaluation.split,
        "seeds": [fitted.seed],
        "hardware": hardware(fitted.device),
        "seconds": round(evaluation.seconds, 1),
        "revision": revision(),
        "command": command,
        "weights": fitted.digest(),
        "training": dict(fitted.provenance),
        "config": to_mapping(fitted.experiment),
    }
    more = {"protocols": evaluation.protocols, "notes": evaluation.notes, "parts": parts}
    return told | {name: value for name, value in more.items() if value}


def read_likelihood(path: Path, fitted: FittedModel, split: Split) -> tuple[Evaluation, dict[str, object]]:
    """Likelihoods that `catnf evaluate --json` measured elsewhere, and where that was.

    Args:
        path: a file of what it printed.
        fitted: the model, which must have been the same one.
        split: the held-out data, which must have been the same, too.
    """
    names = likelihood_names(fitted)
    try:
        told = json.loads(path.read_text())
        metrics = {name: float(told["metrics"][name]) for name in names}
        more = (name for name in told["metrics"] if name.startswith("bits_"))
        metrics |= {name: float(told["metrics"][name]) for name in more}
        intervals = {
            name: (float(ends[0]), float(ends[1]))
            for name, ends in told["intervals"].items()
            if name in metrics
        }
        n = {name: int(count) for name, count in told["n"].items() if name in metrics}
        n |= {name: int(told["n"][name]) for name in (*names, "draws")}
        protocols = {name: str(how) for name, how in told.get("protocols", {}).items() if name in metrics}
        origin = {name: told[name] for name in ("hardware", "seconds", "revision", "command")}
        weights, other = told["weights"], told["split"]
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}; check the path.") from error
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise StorageError(
            f"{path} holds no likelihoods of this model; give what catnf evaluate --json printed for it."
        ) from error
    if weights != fitted.digest():
        raise InputError(f"{path} was measured with other weights; give those of this model.")
    if other != split:
        raise InputError(f"{path} was measured on the {other} split; give --split {other}, or measure again.")
    return Evaluation(metrics, intervals, n, split, 0.0, protocols), origin


def check_result(folder: Path, fitted: FittedModel, split: Split) -> None:
    """Refuse what `write_result` would refuse, before any work, and to replace figures of other weights.

    These may be of the same seed where a model was trained again, or further.
    """
    name, seed = fitted.experiment.name, str(fitted.seed)
    path = folder / f"{name}.json"
    runs = _stored_runs(path)
    earlier = runs.pop(seed, None)
    _check_alike(path, runs, split, to_mapping(fitted.experiment))
    if earlier is None or _of_weights(earlier, fitted):
        return
    raise StorageError(
        f"{path} holds figures of other weights of seed {seed}; move it away, or write into another folder "
        "with --results."
    )


def write_result(folder: Path, name: str, outcome: Mapping[str, object], seed: int) -> Path:
    """Write one seed's outcome to `<folder>/<name>.json`, beside those of other seeds.

    With several seeds, all of one configuration, the metrics are their means, and `runs` holds every
    seed's own. What was there of this seed is replaced.
    """
    path = folder / f"{name}.json"
    runs = _stored_runs(path)
    runs.pop(str(seed), None)
    _check_alike(path, runs, outcome["split"], outcome["config"])
    runs[str(seed)] = dict(outcome)
    ordered = [runs[key] for key in sorted(runs, key=int)]
    write_text(path, json.dumps(_summary(ordered), indent=2) + "\n")
    return path


def _stored_runs(path: Path) -> dict[str, Any]:
    """What a file of results holds, by seeds; nothing where there is none."""
    try:
        earlier = json.loads(path.read_text()) if path.exists() else {"runs": []}
        return {str(run["seeds"][0]): run for run in earlier["runs"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StorageError(f"{path} cannot be read as results; move it away.") from error


def _check_alike(path: Path, runs: Mapping[str, Any], split: object, config: object) -> None:
    """Refuse to write beside `runs` of another split or configuration."""
    for run in runs.values():
        if run.get("split") != split:
            raise StorageError(
                f"{path} holds figures of the {run.get('split')} split; write those of the {split} split "
                "into another folder."
            )
        if not _same(run.get("config"), config):
            raise StorageError(
                f"{path} holds figures of another configuration; move it away or write into another folder."
            )


def _of_weights(run: Mapping[str, Any], fitted: FittedModel) -> bool:
    """Whether a run is of these weights; what was written before weights were told names its training."""
    if "weights" in run:
        return bool(run["weights"] == fitted.digest())
    return bool(run.get("training") == dict(fitted.provenance))


def _same(one: object, two: object) -> bool:
    """Whether two configurations say the same; fields that are new since one was written have defaults."""
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        with suppress(InputError, TypeError, AttributeError):
            return Experiment.from_header(one) == Experiment.from_header(two)
    return one == two


def record_speed(
    experiment: Experiment, speeds: Mapping[str, float], batch: int, device: torch.device, command: str
) -> dict[str, object]:
    """The outcome of a speed measurement as a JSON object."""
    return {
        "experiment": experiment.name,
        "metrics": {name: round(value, 4) for name, value in speeds.items()},
        "n": batch,
        "hardware": hardware(device),
        "torch": torch.__version__,
        "revision": revision(),
        "command": command,
        "config": to_mapping(experiment),
    }


def _summary(runs: list[dict[str, object]]) -> dict[str, object]:
    newest = runs[-1]
    shared = [name for name in _metrics(newest) if all(name in _metrics(run) for run in runs)]
    metrics = {name: _mean(runs, name) for name in shared}
    intervals = {name: ends for name in shared if (ends := _interval(runs, name))}
    ranges = {name: [min(_values(runs, name)), max(_values(runs, name))] for name in metrics}
    return {
        "experiment": newest["experiment"],
        "metrics": metrics,
        "intervals": intervals,
        "interval_kind": "95 %, over examples; with several seeds, which share them, the mean of theirs",
        "ranges": ranges,
        "seeds": [run["seeds"][0] for run in runs],  # type: ignore[index]
        **{key: newest[key] for key in ("n", "split", "hardware", "seconds", "revision", "command")},
        **{key: newest[key] for key in ("protocols",) if key in newest},
        "runs": runs,
    }


def _metrics(run: Mapping[str, object]) -> dict[str, float]:
    metrics = run["metrics"]
    assert isinstance(metrics, dict)
    return metrics


def _values(runs: list[dict[str, object]], name: str) -> list[float]:
    return [_metrics(run)[name] for run in runs]


def _interval(runs: list[dict[str, object]], name: str) -> list[float]:
    """The mean of the seeds' intervals, or nothing where one has none.

    Their examples are the same, so that a mean over seeds averages little of the noise of examples away.
    """
    found = []
    for run in runs:
        intervals = run["intervals"]
        assert isinstance(intervals, dict)
        if name not in intervals:
            return []
        found.append(intervals[name])
    return [sum(ends) / len(ends) for ends in zip(*found, strict=True)]


def _mean(runs: list[dict[str, object]], name: str) -> float:
    values = _values(runs, name)
    return sum(values) / len(values)
