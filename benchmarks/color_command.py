"""Times `catnf color` on a graph of 50 nodes, as typed: start of Python, loading, 16 samples, end."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import networkx as nx

from catnf.coloring import DEFAULT_MODEL
from catnf.provenance import hardware, revision
from catnf.storage import write_text

PATH = Path(__file__).parent.parent / "results" / "bench" / "coloring-command-cpu.json"
REPEATS = 10


def measure() -> list[float]:
    """Seconds of every run, after one that does not count."""
    graph = nx.gnp_random_graph(50, 0.08, seed=1)
    graph = nx.compose(graph, nx.path_graph(50))  # connected
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "graph.txt"
        file.write_text("".join(f"{one} {two}\n" for one, two in graph.edges))
        command = [sys.executable, "-m", "catnf", "color", str(file), "--samples", "16", "--device", "cpu"]
        seconds = []
        for _ in range(REPEATS + 1):
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            seconds.append(time.perf_counter() - start)
    return seconds[1:]


if __name__ == "__main__":
    seconds = measure()
    outcome = {
        "experiment": DEFAULT_MODEL,
        "metrics": {"seconds": statistics.median(seconds), "slowest_seconds": max(seconds)},
        "n": {"seconds": REPEATS, "nodes": 50, "samples": 16},
        "hardware": hardware(),
        "revision": revision(),
        "command": "python benchmarks/color_command.py",
    }
    write_text(PATH, json.dumps(outcome, indent=2) + "\n")
    print(json.dumps(outcome["metrics"]))
