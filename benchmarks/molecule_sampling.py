"""Times drawing molecules from a bundled model on a GPU, and reading them as chemistry on a CPU.

python benchmarks/molecule_sampling.py draw graphs.npz    # on the machine with the GPU, which needs no RDKit
python benchmarks/molecule_sampling.py read graphs.npz    # where RDKit is
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

import torch

import catnf
from catnf.provenance import hardware, revision
from catnf.sampling import SampledGraphs, SamplingOptions, molecule_task
from catnf.storage import write_text

MODEL = "molecules/zinc250k/growth-small"
COUNT = 10_000
REPEATS = 5
FOLDER = Path(__file__).parent.parent / "results" / "bench"


def draw(path: Path) -> dict[str, float]:
    """Seconds of the first draw of a process, which loads kernels, and of those after it."""
    fitted = catnf.load(MODEL, "cuda")
    seconds = []
    for seed in range(REPEATS + 1):
        drawn = SampledGraphs.draw(fitted, SamplingOptions(COUNT, seed))
        seconds.append(float(drawn.about["seconds"]))
    drawn.save(path, fitted)
    return {
        "draw_seconds": statistics.median(seconds[1:]),
        "slowest_draw_seconds": max(seconds[1:]),
        "first_draw_seconds": seconds[0],
        "draw_memory_gb": torch.cuda.max_memory_reserved() / 1e9,
    }


def read(path: Path) -> dict[str, float]:
    """Seconds that the SMILES and the strict validity of the drawn molecules take on one core."""
    from catnf.tasks.molecules.chemistry import strict_smiles

    fitted = catnf.load(MODEL)
    graphs = list(SampledGraphs.load([path], fitted).archive)
    vocabulary = molecule_task(fitted).vocabulary
    start = time.perf_counter()
    smiles = [strict_smiles(graph, vocabulary) for graph in graphs]
    seconds = time.perf_counter() - start
    return {
        "chemistry_seconds": seconds,
        "valid": sum(one is not None for one in smiles) / len(smiles),
    }


if __name__ == "__main__":
    work, file = sys.argv[1], Path(sys.argv[2])
    name = {"draw": "molecules-sampling-h200.json", "read": "molecules-chemistry-cpu.json"}[work]
    outcome = {
        "experiment": MODEL,
        "metrics": draw(file) if work == "draw" else read(file),
        "n": COUNT,
        "hardware": hardware(torch.device("cuda" if work == "draw" else "cpu")),
        "torch": torch.__version__,
        "revision": revision(),
        "command": f"python benchmarks/molecule_sampling.py {work} graphs.npz",
    }
    write_text(FOLDER / name, json.dumps(outcome, indent=2) + "\n")
    print(json.dumps(outcome["metrics"]))
