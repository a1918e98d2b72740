"""Loss curves of several runs beside each other, as in the paper's appendix on Latent NF.

python benchmarks/loss_curves.py results/losses/NAME.json TITLE=FOLDER[=RESULT] [TITLE=FOLDER[=RESULT] ...]

Every curve is the mean of the last ten losses. `--about` says what they are of, `--picture` draws them.
A folder without weights is described by what was measured of them, which is in the JSON file RESULT.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import Any

from catnf.configuration import to_mapping
from catnf.fitted import load
from catnf.provenance import revision
from catnf.reporting.curves import MEAN, draw_curves, read_losses, stored_curves
from catnf.storage import write_text

MOST = 500  # points of a stored curve


def describe(place: str) -> tuple[Path, dict[str, Any]]:
    """The folder that FOLDER[=RESULT] names, and what was trained there."""
    folder, _, result = place.partition("=")
    if result:
        run, *others = json.loads(Path(result).read_text())["runs"]
        if others:
            sys.exit(f"{result} is of several seeds, and a run is of one; give a result of one seed.")
        return Path(folder), {key: run[key] for key in ("experiment", "seeds", "training", "config")}
    fitted = load(Path(folder))
    return Path(folder), {
        "experiment": fitted.experiment.name,
        "seeds": [fitted.seed],
        "training": dict(fitted.provenance),
        "config": to_mapping(fitted.experiment),
    }


def main(output: Path, places: dict[str, str], about: str, picture: Path | None) -> None:
    """Write the curves with what they are of, and draw them."""
    runs, curves = [], {}
    for name, place in places.items():
        folder, described = describe(place)
        steps, bits = read_losses(folder)
        some = slice(MEAN - 1, None, max(MEAN, len(steps) // MOST))
        curves[name] = {
            "steps": [int(step) for step in steps[some]],
            "bits": [round(float(value), 4) for value in bits[some]],
        }
        runs.append({"title": name, "metrics": {"last_loss": round(float(bits[-1]), 4)}, **described})
    outcome = {
        "about": about,
        "revision": revision(),
        "command": shlex.join(["python", *sys.argv]),
        "runs": runs,
        "curves": curves,
    }
    write_text(output, json.dumps(outcome) + "\n")
    if picture is not None:
        draw_curves(picture, stored_curves(outcome))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("runs", nargs="+", metavar="TITLE=FOLDER[=RESULT]")
    parser.add_argument("--about", default="")
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    named = dict(part.split("=", 1) for part in given.runs)
    main(given.output, named, given.about, given.picture)
