"""Distributions of sampled molecules beside those of the data, for the report.

python benchmarks/molecule_distributions.py zinc250k|moses [--samples 1000] [--molecules 2000]

Samples are those of the bundled model that are strictly valid; the data are test molecules, spread evenly
over the split, since that of MOSES has an order.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path

from catnf.fitted import load
from catnf.molecules import sample_molecules
from catnf.provenance import hardware, revision
from catnf.sampling import molecule_task
from catnf.storage import write_text
from catnf.tasks.molecules.distributions import Profile
from catnf.tasks.molecules.metrics import valid_smiles
from catnf.tasks.task import spread

ROOT = Path(__file__).parent.parent


def told(profile: Profile) -> dict[str, object]:
    """A profile for JSON, its values rounded to what a picture shows."""
    values = {name: [round(float(value), 3) for value in some] for name, some in profile.values.items()}
    return {"counts": {name: dict(some) for name, some in profile.counts.items()}, "values": values}


def main(data: str, samples: int, molecules: int) -> None:
    """Write `results/distributions/<data>.json`."""
    name = f"molecules/{data}/growth-small"
    fitted = load(name)
    task = molecule_task(fitted)
    drawn = [molecule.smiles for molecule in sample_molecules(samples, fitted) if molecule.valid]
    archive = task.archive("test")
    chosen = spread(len(archive), molecules).numpy()
    real = valid_smiles(list(archive.take(chosen)), task.vocabulary)
    outcome = {
        "experiment": name,
        "n": {"drawn": samples, "samples": len(drawn), "data": len(real)},
        "hardware": hardware(),
        "revision": revision(),
        "command": shlex.join(["python", *sys.argv]),
        "profiles": {"data": told(Profile.of(real)), "samples": told(Profile.of(drawn))},
    }
    write_text(ROOT / "results" / "distributions" / f"{data}.json", json.dumps(outcome) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", choices=["zinc250k", "moses"])
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--molecules", type=int, default=2000)
    given = parser.parse_args()
    main(given.data, given.samples, given.molecules)
