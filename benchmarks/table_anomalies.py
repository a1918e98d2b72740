"""Finds rows whose cells were shuffled: ranking by likelihood beside an isolation forest.

    python benchmarks/table_anomalies.py --seeds 0 1 2

One row in a hundred is taken, and every column permuted among these rows: each cell stays a usual one, only
their combination is not. Models are fitted to the whole table, shuffled rows included, as a user would.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from table_data import car

from catnf.provenance import hardware, revision
from catnf.storage import write_text
from catnf.tabular import CategoricalFlow

PATH = Path(__file__).parent.parent / "results" / "table" / "anomalies.json"
SHARE = 0.01
ROWS, COLUMNS, CLASSES = 8000, 20, 6


def made(seed: int) -> pd.DataFrame:
    """A table like that of the mushrooms: columns of 2 to 9 categories, made by kinds and by each other.

    Half of the columns depend on the kind of the row alone. Each of the others follows from the kind and one
    earlier column. A tenth of the cells is anything.
    """
    random = np.random.default_rng(seed)
    kind = random.choice(CLASSES, ROWS, p=random.dirichlet(np.full(CLASSES, 5.0)))
    columns: list[NDArray[np.int64]] = []
    for index in range(COLUMNS):
        size = int(random.integers(2, 10))
        before = columns[int(random.integers(index))] if index % 2 else np.zeros(ROWS, dtype=np.int64)
        table = np.stack([random.dirichlet(np.full(size, 0.25), CLASSES) for _ in range(10)])
        shares = table[before, kind].cumsum(1)
        drawn = (random.random((ROWS, 1)) > shares).sum(1).clip(max=size - 1)
        anything = random.random(ROWS) < 0.1
        columns.append(np.where(anything, random.integers(0, size, ROWS), drawn))
    letters = {f"column{index}": column for index, column in enumerate(columns)}
    return pd.DataFrame(letters).map(lambda code: "abcdefghij"[code])


def shuffled(frame: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, NDArray[np.bool_]]:
    """The table with some rows' cells permuted among them, and which rows these are."""
    random = np.random.default_rng(seed)
    chosen = random.choice(len(frame), round(SHARE * len(frame)), replace=False)
    out = frame.reset_index(drop=True).copy()
    for name in out.columns:
        out.loc[chosen, name] = out.loc[random.permutation(chosen), name].to_numpy()
    strange = np.zeros(len(frame), dtype=bool)
    strange[chosen] = True
    return out, strange


def measure(frame: pd.DataFrame, seed: int) -> dict[str, float]:
    """Areas under the curve of both, and what they took."""
    table, strange = shuffled(frame, seed)
    start = time.process_time()
    flow = CategoricalFlow(random_state=seed).fit(table)
    scores = flow.score_samples(table)
    seconds = time.process_time() - start
    hot = pd.get_dummies(table).to_numpy(dtype=np.float32)
    forest = IsolationForest(random_state=seed).fit(hot)
    return {
        "roc_auc": float(roc_auc_score(strange, -scores)),
        "roc_auc_isolation_forest": float(roc_auc_score(strange, -forest.score_samples(hot))),
        "processor_seconds": seconds,
    }


def main() -> None:
    """Read the command line, measure, and write one file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    start, code = time.perf_counter(), revision()
    tables = {
        "made": [measure(made(seed), seed) for seed in asked.seeds],
        "car": [measure(car().train, seed) for seed in asked.seeds],
    }
    outcome = {
        "experiment": "table/anomalies",
        "metrics": {
            f"{name}_{key}": float(np.mean([run[key] for run in runs]))
            for name, runs in tables.items()
            for key in runs[0]
        },
        "n": {"made": ROWS, "columns": COLUMNS, "car": len(car().train), "share_shuffled": SHARE},
        "seeds": asked.seeds,
        "hardware": hardware(),
        "seconds": round(time.perf_counter() - start, 1),
        "revision": code,
        "command": f"python benchmarks/table_anomalies.py --seeds {' '.join(map(str, asked.seeds))} "
        f"--threads {asked.threads}",
        "runs": tables,
    }
    write_text(PATH, json.dumps(outcome, indent=2) + "\n")
    print(json.dumps(outcome["metrics"]))


if __name__ == "__main__":
    main()
