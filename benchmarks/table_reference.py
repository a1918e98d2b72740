"""Writes what independent columns need on the credit data, beside which the models' figures are read."""

from __future__ import annotations

import json
from pathlib import Path

from catnf.provenance import hardware, revision
from catnf.storage import write_text
from catnf.tasks.table import CreditRisk
from catnf.tasks.table.data import independent_bits

PATH = Path(__file__).parent.parent / "results" / "table" / "credit" / "independent.json"

if __name__ == "__main__":
    outcome = {
        "experiment": "table/credit/independent",
        "metrics": {"bits_per_variable": independent_bits(CreditRisk(), "test")},
        "n": {"bits_per_variable": 150},
        "split": "test",
        "seeds": [],
        "hardware": hardware(),
        "revision": revision(),
        "command": "python benchmarks/table_reference.py",
    }
    write_text(PATH, json.dumps(outcome, indent=2) + "\n")
    print(json.dumps(outcome["metrics"]))
