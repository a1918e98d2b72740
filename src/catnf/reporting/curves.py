"""Loss curves of several trainings beside each other, whole and close up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from catnf.drawing import make_figure, save_figure
from catnf.errors import InputError, StorageError
from catnf.reference import Result
from catnf.training.checkpoint import LOSSES

MEAN = 10  # losses
COLORS = ("#2a6fbb", "#c8553d", "#5b8c5a", "#8a5aa8", "#7a7a7a", "#b08a2e", "#2f8f9d", "#d17fb0", "#1f1f1f")

Curve = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Steps of a training and the running means of their losses in bits, `[steps]` each."""


def read_losses(folder: Path) -> Curve:
    """The curve of a run."""
    path = folder / LOSSES
    try:
        steps, bits = np.loadtxt(path, delimiter=",", skiprows=1, unpack=True, ndmin=2)
    except (OSError, ValueError) as error:
        raise StorageError(f"{path} cannot be read as losses; give the folder of a run.") from error
    sums = np.cumsum(np.concatenate([[0.0], bits]))
    first = np.maximum(np.arange(len(bits)) + 1 - MEAN, 0)
    last = np.arange(len(bits)) + 1
    return steps, (sums[last] - sums[first]) / (last - first)


def stored_curves(result: Result) -> dict[str, Curve]:
    """The curves of a result that `benchmarks/loss_curves.py` wrote, by their names."""
    return {
        name: (np.array(told["steps"]), np.array(told["bits"])) for name, told in result["curves"].items()
    }


def loss_caption(result: Result) -> str:
    """What the curves of a result are of."""
    runs = result["runs"]
    steps = max(int(run["training"]["steps"]) for run in runs)
    places = sorted({str(run["training"]["hardware"]) for run in runs})
    most = "up to " if len({int(run["training"]["steps"]) for run in runs}) > 1 else ""
    told = f"Means of the last {MEAN} losses, {most}{steps:,} steps, trained on {' and '.join(places)}."
    return f"{result['about']} {told}".strip()


def draw_curves(path: Path, curves: Mapping[str, Curve], ylabel: str = "bits per symbol") -> Path:
    """Draw curves by their names into a PNG."""
    if not curves:
        raise InputError("There are no runs to draw; give at least one.")
    figure = make_figure(10.0, 4.0)
    for place, title in enumerate(("whole", "close up"), 1):
        axes = figure.add_subplot(1, 2, place)
        for number, (name, (steps, bits)) in enumerate(curves.items()):
            axes.plot(steps, bits, color=COLORS[number % len(COLORS)], linewidth=1.0, label=name)
        axes.set_title(title)
        axes.set_xlabel("step")
        axes.set_ylabel(ylabel)
        if place == 2:
            low = min(float(bits.min()) for _, bits in curves.values())
            high = max(float(np.quantile(bits[len(bits) // 2 :], 0.98)) for _, bits in curves.values())
            axes.set_ylim(low - 0.03 * (high - low), high + 0.1 * (high - low) + 1e-6)
        else:
            axes.legend(frameon=False)
    return save_figure(figure, path)
