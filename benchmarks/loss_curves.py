"""Loss curves of several runs beside each other, whole and close up, as in the paper's appendix on Latent NF.

python benchmarks/loss_curves.py OUT.png NAME=FOLDER [NAME=FOLDER ...]

Every curve is the mean of the last ten losses.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from catnf.drawing import make_figure, save_figure

MEAN = 10  # losses
COLORS = ("#2a6fbb", "#c8553d", "#5b8c5a", "#8a5aa8", "#7a7a7a")


def read(folder: Path) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Steps and the running means of their losses in bits, `[steps]` each."""
    steps, bits = np.loadtxt(folder / "losses.csv", delimiter=",", skiprows=1, unpack=True, ndmin=2)
    sums = np.cumsum(np.concatenate([[0.0], bits]))
    first = np.maximum(np.arange(len(bits)) + 1 - MEAN, 0)
    last = np.arange(len(bits)) + 1
    return steps, (sums[last] - sums[first]) / (last - first)


def main(path: Path, runs: dict[str, Path]) -> None:
    """Draw the curves of `runs`, by their names, into `path`."""
    curves = {name: read(folder) for name, folder in runs.items()}
    figure = make_figure(10.0, 4.0)
    for place, title in enumerate(("whole", "close up"), 1):
        axes = figure.add_subplot(1, 2, place)
        for color, (name, (steps, bits)) in zip(COLORS, curves.items(), strict=False):
            axes.plot(steps, bits, color=color, linewidth=1.0, label=name)
        axes.set_title(title)
        axes.set_xlabel("step")
        axes.set_ylabel("bits per symbol")
        if place == 2:
            low = min(float(bits.min()) for _, bits in curves.values())
            high = max(float(np.quantile(bits[len(bits) // 5 :], 0.98)) for _, bits in curves.values())
            axes.set_ylim(low - 0.03 * (high - low), high + 0.1 * (high - low))
        axes.legend(frameon=False)
    print(save_figure(figure, path))


if __name__ == "__main__":
    named = dict(part.split("=", 1) for part in sys.argv[2:])
    if not named:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), {name: Path(folder) for name, folder in named.items()})
