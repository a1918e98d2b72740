"""Compares tools that make synthetic rows: same tables, same rows, same figures, each tool at its defaults.

    pip install -c constraints.txt ".[table]" ctgan pgmpy arfpy
    python benchmarks/compare_tables.py car catnf --seeds 0 1 2
    python benchmarks/compare_tables.py car ctgan

Every call writes `results/table/comparison/<table>/<tool>.json`. The tool `real` is no tool: it measures
the rows that the others are fitted to, and so tells what the best of tools could reach.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from table_data import TABLES, Table
from table_tools import TOOLS

from catnf.provenance import hardware, revision
from catnf.storage import write_text
from catnf.tabular.comparison import detection_auc, pair_scores, prediction_f1, shape_scores

FOLDER = Path(__file__).parent.parent / "results" / "table" / "comparison"
PROTOCOL = {
    "pair_error": "mean over pairs of columns of the total variation distance of their joint distributions, "
    "numbers in tenths, held-out rows beside as many synthetic rows as were fitted",
    "shape_error": "mean over columns of the distance of distributions: total variation, or that of "
    "Kolmogorov and Smirnov for numbers",
    "f1": "macro F1 on held-out rows of gradient-boosted trees, trained on as many synthetic rows as were "
    "fitted",
    "detection_auc": "of gradient-boosted trees, cross-validated, that tell held-out from synthetic rows",
    "bits_per_row": "minus the mean log-likelihood of held-out rows; whole numbers by their probability",
    "fit_seconds": "wall time; the machine did other work beside it, so fit_processor_seconds tells more",
}


def compare(table: Table, synthetic: pd.DataFrame, seed: int) -> dict[str, float]:
    """Figures of one synthetic table beside the held-out rows."""
    kinds, test = table.kinds, table.test
    drawn = synthetic[list(table.train.columns)]
    few = drawn.sample(min(len(test), len(drawn)), random_state=seed)
    return {
        "pair_error": 1.0 - float(np.mean(list(pair_scores(test, drawn, kinds).values()))),
        "shape_error": 1.0 - float(np.mean(list(shape_scores(test, drawn, kinds).values()))),
        "f1": prediction_f1(test, [drawn], kinds, table.target, seed)[0],
        "detection_auc": detection_auc(test, few, kinds, seed),
    }


def measure(table: Table, tool_name: str, seed: int) -> dict[str, object]:
    """Fit a tool once and measure it."""
    if tool_name == "real":
        return {"seed": seed, "metrics": compare(table, table.train, seed)}
    tool = TOOLS[tool_name]()
    start, used = time.perf_counter(), time.process_time()
    tool.fit(table, seed)
    metrics = {
        "fit_seconds": time.perf_counter() - start,
        "fit_processor_seconds": time.process_time() - used,
    }
    figures = []
    seconds = []
    for draw in range(table.draws):
        used = time.process_time()
        synthetic = tool.sample(len(table.train), 1000 * seed + draw)
        seconds.append(time.process_time() - used)
        figures.append(compare(table, synthetic, draw))
    metrics["sample_processor_seconds"] = float(np.mean(seconds))
    for name in figures[0]:
        metrics[name] = float(np.mean([figure[name] for figure in figures]))
    bits = tool.bits(table.test)
    if bits is not None:
        metrics["bits_per_row"] = bits
    return {"seed": seed, "metrics": metrics, "about": tool.about()}


def main() -> None:
    """Read the command line, measure, and write one file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("table", choices=list(TABLES))
    parser.add_argument("tool", choices=["real", *TOOLS])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(asked.threads)
    table = TABLES[asked.table]()
    start, code = time.perf_counter(), revision()  # files may change while tools are fitted
    runs = [measure(table, asked.tool, seed) for seed in asked.seeds]
    metrics = [run["metrics"] for run in runs]
    outcome = {
        "experiment": f"table/comparison/{asked.table}/{asked.tool}",
        "metrics": {name: float(np.mean([own[name] for own in metrics])) for name in metrics[0]},
        "ranges": {
            name: [min(own[name] for own in metrics), max(own[name] for own in metrics)]
            for name in metrics[0]
        },
        "seeds": asked.seeds,
        "n": {"fit": len(table.train), "test": len(table.test), "synthetic_tables": table.draws},
        "split": table.split,
        "protocol": PROTOCOL,
        "hardware": hardware(),
        "seconds": round(time.perf_counter() - start, 1),
        "revision": code,
        "command": f"python benchmarks/compare_tables.py {asked.table} {asked.tool} --seeds "
        f"{' '.join(map(str, asked.seeds))} --threads {asked.threads}",
        "runs": runs,
    }
    path = FOLDER / asked.table / f"{asked.tool}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(outcome, indent=2) + "\n")
    print(json.dumps({asked.table: {asked.tool: outcome["metrics"]}}))


if __name__ == "__main__":
    main()
