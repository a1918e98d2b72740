"""Times commands as typed, from the start of Python to the end, on a CPU.

python benchmarks/typed_commands.py color    # `catnf color` on a graph of 50 nodes, 16 samples
python benchmarks/typed_commands.py text     # `catnf sample` that continues 20 characters by 200
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import networkx as nx

from catnf.coloring import DEFAULT_MODEL as COLORING
from catnf.provenance import hardware, revision
from catnf.storage import write_text
from catnf.text import DEFAULT_MODEL as TEXT

BENCH = Path(__file__).parent.parent / "results" / "bench"
FILES = {"color": BENCH / "coloring-command-cpu.json", "text": BENCH / "text-command-cpu.json"}
MODELS = {"color": COLORING, "text": TEXT}
REPEATS = 10
PROMPT = "the history of texts"


def command(kind: str, folder: Path) -> tuple[list[str], dict[str, int]]:
    """What is typed after `catnf`, and how large it is."""
    if kind == "text":
        length = len(PROMPT) + 200
        typed = ["sample", TEXT, "--prompt", PROMPT, "--length", str(length), "-n", "1", "--seed", "0"]
        return typed, {"characters": 200, "prompt": len(PROMPT)}
    graph = nx.gnp_random_graph(50, 0.08, seed=1)
    graph = nx.compose(graph, nx.path_graph(50))  # connected
    file = folder / "graph.txt"
    file.write_text("".join(f"{one} {two}\n" for one, two in graph.edges))
    return ["color", str(file), "--samples", "16"], {"nodes": 50, "samples": 16}


def measure(typed: Sequence[str]) -> list[float]:
    """Seconds of every run, after one that does not count."""
    seconds = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        whole = [sys.executable, "-m", "catnf", *typed, "--device", "cpu"]
        subprocess.run(whole, check=True, capture_output=True)
        seconds.append(time.perf_counter() - start)
    return seconds[1:]


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in FILES:
        sys.exit(__doc__)
    kind = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        typed, sizes = command(kind, Path(folder))
        seconds = measure(typed)
    outcome = {
        "experiment": MODELS[kind],
        "metrics": {"seconds": statistics.median(seconds), "slowest_seconds": max(seconds)},
        "n": {"seconds": REPEATS, **sizes},
        "hardware": hardware(),
        "revision": revision(),
        "command": f"python benchmarks/typed_commands.py {kind}",
    }
    write_text(FILES[kind], json.dumps(outcome, indent=2) + "\n")
    print(json.dumps(outcome["metrics"]))
