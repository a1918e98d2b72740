"""Fits tables of 10,000 to 1,000,000 rows and 20 columns: time, and the most memory that was held.

    python benchmarks/table_scale.py --max-steps 300
    python benchmarks/table_scale.py --rows 1000000
    python benchmarks/table_scale.py --kind wide --rows 100000 --max-steps 100
    python benchmarks/table_scale.py --kind long --rows 100000 --max-steps 100

A wide table has 200 columns, a long one a column of 10,000 categories beside the 20; their results are
`scale-wide.json` and `scale-long.json`. Without `--max-steps` trainings are whole, and their results are
in `scale-whole.json`, or `scale-wide-whole.json` and so on.
Every size is fitted in a process of its own, whose largest resident memory the operating system tells.
Training makes a number of steps that does not grow with the rows, so what a row costs is what reading and
encoding it costs, and a share of the training that gets smaller; both are given.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from catnf.provenance import hardware, revision
from catnf.storage import write_text

FOLDER = Path(__file__).parent.parent / "results" / "table"
_USUAL = (2, 2, 3, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 60, 100, 200)
CARDINALITIES = {"usual": _USUAL, "wide": 11 * _USUAL, "long": (*_USUAL, 10_000)}
"""Of the categorical columns of every kind of table."""


def made(rows: int, kind_of_table: str = "usual", seed: int = 0) -> pd.DataFrame:
    """Categorical columns, 18 of 2 to 200 categories or more, a whole number and a continuous one, all
    dependent."""
    random = np.random.default_rng(seed)
    kind = random.integers(0, 8, rows)
    columns: dict[str, object] = {}
    before = kind
    for index, size in enumerate(CARDINALITIES[kind_of_table]):
        middle = (before * (2 * index + 3) + kind) % size
        # Half of a long column is anything, so that nearly all of its values are seen.
        spread = random.geometric(0.5, rows) - 1
        if size > 1000:
            spread = np.where(random.random(rows) < 0.5, random.integers(0, size, rows), spread)
        own = (middle + spread) % size
        before = own % 8
        columns[f"category{index}"] = pd.Categorical.from_codes(
            own, [f"value {code}" for code in range(size)]
        )
    columns["count"] = random.poisson(20 + 10 * kind)
    columns["amount"] = np.exp(0.5 * random.standard_normal(rows) + 0.3 * kind)
    return pd.DataFrame(columns)


def measure(rows: int, kind: str, max_steps: int | None) -> dict[str, float]:
    """Fit one table in this process."""
    from catnf.tabular import CategoricalFlow
    from catnf.tabular.fitting import sizes_for

    table = made(rows, kind)
    before = _memory()
    told: list[tuple[int, int, float | None]] = []
    start, used = time.perf_counter(), time.process_time()
    flow = CategoricalFlow(random_state=0, max_steps=max_steps).fit(
        table, progress=lambda step, steps, bits: told.append((step, steps, bits))
    )
    seconds, processor = time.perf_counter() - start, time.process_time() - used
    batch = flow.table_.sizes.batch
    return {
        "rows": rows,
        "columns": table.shape[1],
        "most_categories": max(table[name].nunique() for name in table.columns[: len(CARDINALITIES[kind])]),
        "batch": batch,
        "fit_seconds": seconds,
        "fit_processor_seconds": processor,
        "training_seconds": flow.fit_seconds_,
        "reading_seconds_per_million_rows": (seconds - flow.fit_seconds_) / rows * 1e6,
        "steps": flow.n_steps_,
        "planned_steps": sizes_for(flow.table_.code, rows).steps,
        "processor_milliseconds_per_step": 1e3 * processor / flow.n_steps_,
        "processor_microseconds_per_trained_row": 1e6 * processor / (flow.n_steps_ * batch),
        "progress_reports": len(told),
        "held_out_bits_per_row": -(flow.held_out_log_likelihood_ or 0.0) / float(np.log(2)),
        "peak_gigabytes": _memory(),
        "gigabytes_before_fit": before,
        "table_gigabytes": float(table.memory_usage(deep=True).sum()) / 1e9,
    }


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def main() -> None:
    """Read the command line, measure each size in a process of its own, and write one file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--kind", choices=list(CARDINALITIES), default="usual")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--max-steps", type=int, help="fewer than the default, for a quick look")
    parser.add_argument(
        "--alone", action="store_true", help="measure here and print; used by the command itself"
    )
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    if asked.alone:
        print(json.dumps(measure(asked.rows[0], asked.kind, asked.max_steps)))
        return
    name = "scale" if asked.kind == "usual" else f"scale-{asked.kind}"
    name += "-whole" if asked.max_steps is None else ""
    start, code = time.perf_counter(), revision()
    steps = ["--kind", asked.kind]
    steps += [] if asked.max_steps is None else ["--max-steps", str(asked.max_steps)]
    runs = []
    for rows in asked.rows:
        call = [
            sys.executable,
            __file__,
            "--alone",
            "--rows",
            str(rows),
            "--threads",
            str(asked.threads),
            *steps,
        ]
        out = subprocess.run(call, check=True, capture_output=True, text=True).stdout
        runs.append(json.loads(out.splitlines()[-1]))
        print(json.dumps(runs[-1]), flush=True)
    outcome = {
        "experiment": f"table/{name}",
        "metrics": {"peak_gigabytes": max(run["peak_gigabytes"] for run in runs)},
        "n": {"rows": asked.rows, "columns": len(CARDINALITIES[asked.kind]) + 2},
        "seeds": [0],
        "hardware": hardware(),
        "seconds": round(time.perf_counter() - start, 1),
        "revision": code,
        "command": " ".join(
            [
                "python benchmarks/table_scale.py --rows",
                *map(str, asked.rows),
                f"--threads {asked.threads}",
                *steps,
            ]
        ),
        "runs": runs,
    }
    write_text(FOLDER / f"{name}.json", json.dumps(outcome, indent=2) + "\n")


if __name__ == "__main__":
    main()
