"""Finding the checkpoint that a run goes on from."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from catnf.configuration import to_mapping
from catnf.errors import InputError, StorageError
from catnf.experiments import Experiment
from catnf.storage import load_tensors

_LONGEST_TOLD = 60  # characters of a setting that are shown

CHECKPOINT = "checkpoint.safetensors"
MODEL = "model.safetensors"
LOSSES = "losses.csv"

Found = tuple[dict[str, Tensor], dict[str, object]]
"""Tensors and header of a checkpoint."""


def find_checkpoint(experiment: Experiment, folder: Path, seed: int, restart: bool) -> Found | None:
    """The checkpoint in `folder`, which is made if need be; `None` where a run starts from scratch.

    Whatever a user can get wrong about a folder is an error here, before any other process is started.

    Args:
        experiment: what is to be trained; a checkpoint of another one is refused.
        folder: of the run.
        seed: of the run; a checkpoint of another one is refused.
        restart: forget an earlier run; what it left is there until `clear_folder`.
    """
    checkpoint = folder / CHECKPOINT
    if restart or not checkpoint.exists():
        _make(folder)
        return None
    state, header = load_tensors(checkpoint)
    if header.get("kind") != "checkpoint":
        raise StorageError(f"{checkpoint} is not a checkpoint of a training run; choose another folder.")
    try:
        stored, seed_then, step = (
            Experiment.from_header(header["experiment"]),
            header["seed"],
            header["step"],
        )
    except (InputError, KeyError) as error:
        raise StorageError(
            f"{checkpoint} has a header that this catnf cannot read ({error}); use --restart."
        ) from error
    if experiment.training.steps < step:
        raise InputError(
            f"{folder} holds a run of {step} steps, more than training.steps={experiment.training.steps}; "
            "ask for at least as many, or use another folder (--output) or --restart."
        )
    # More steps than planned are a fine reason to resume; anything else would be another experiment.
    same = replace(
        experiment, name=stored.name, training=replace(experiment.training, steps=stored.training.steps)
    )
    if stored != same or seed_then != seed:
        difference = _difference(stored, same, seed_then, seed)
        raise InputError(
            f"{folder} holds a run with {difference}; "
            "use the same settings, another folder (--output), or --restart."
        )
    return state, header


def clear_folder(folder: Path, restart: bool) -> None:
    """Remove what is left of earlier runs, with `restart` their checkpoint and model too."""
    names = (CHECKPOINT, LOSSES, MODEL, "run.json", "loss.png") if restart else (LOSSES,)
    try:
        for name in names:
            (folder / name).unlink(missing_ok=True)
        shutil.rmtree(folder / "tensorboard", ignore_errors=True)
    except OSError as error:
        raise _useless(folder, error) from error


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _useless(folder, error) from error


def _useless(folder: Path, error: OSError) -> StorageError:
    return StorageError(f"The folder {folder} cannot be used: {error.strerror}; choose another --output.")


def _difference(stored: Experiment, wanted: Experiment, stored_seed: object, seed: int) -> str:
    if stored_seed != seed:
        return f"seed {stored_seed}, not {seed}"
    left, right = _leaves(to_mapping(stored)), _leaves(to_mapping(wanted))
    name = next(key for key in left if left[key] != right.get(key))
    return f"{name}={_short(left[name])}, not {_short(right.get(name))}"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST_TOLD else f"{text[:_LONGEST_TOLD]}..."


def _leaves(values: object, prefix: str = "") -> dict[str, object]:
    if not isinstance(values, dict):
        return {prefix: values}
    out: dict[str, object] = {}
    for key, value in values.items():
        out.update(_leaves(value, f"{prefix}.{key}" if prefix else str(key)))
    return out
