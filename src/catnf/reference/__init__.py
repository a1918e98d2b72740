"""What the paper reports and what we measured, as data inside the package.

`paper.json` holds the paper's figures, each with its place there. `results.json` is a summary of the folder
`results/` of the repository, so that an installed package can show the figures too; it is written by
`python benchmarks/results_table.py`, and a test tells where it is not current.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from catnf.errors import StorageError

FOLDER = Path(__file__).parent
SUMMARY = FOLDER / "results.json"

Result = Mapping[str, Any]
"""A result as `catnf evaluate --results` writes it: metrics, intervals, n, seeds, hardware and so on."""

_KEPT = ("metrics", "n", "seeds", "seed", "training", "seconds", "hardware")  # of every run
_DROPPED = ("config", "protocols", "protocol", "interval_kind", "ranges", "largest", "overrides", "notes")


@dataclass(frozen=True)
class PaperRow:
    """A row of a table of the paper.

    Attributes:
        name: what the paper calls it.
        table: where it is in the paper.
        metrics: figures by our names.
        spread: standard deviations over seeds, where given.
    """

    name: str
    table: str
    metrics: Mapping[str, float]
    spread: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Paper:
    """The figures of the paper.

    Attributes:
        source: the paper.
        rows: by the names of our experiments.
        others: rows that are no experiment of ours, by data set, such as `molecules/zinc250k`.
    """

    source: str
    rows: Mapping[str, PaperRow]
    others: Mapping[str, list[PaperRow]]


def load_paper() -> Paper:
    """The paper's figures."""
    told = _read(FOLDER / "paper.json")
    rows = {row["experiment"]: _paper_row(row) for row in told["rows"]}
    others: dict[str, list[PaperRow]] = {}
    for row in told["others"]:
        others.setdefault(row["data"], []).append(_paper_row(row))
    return Paper(told["source"], rows, others)


@dataclass(frozen=True)
class Results(Mapping[str, Result]):
    """Results by their names, which are paths in `results/` without `.json`."""

    entries: Mapping[str, Result] = field(default_factory=dict)

    @classmethod
    def bundled(cls) -> Results:
        """Those inside the package."""
        return cls(_read(SUMMARY))

    @classmethod
    def of_folder(cls, folder: Path) -> Results:
        """Those of a folder such as `results/`; of one that does not exist, none."""
        files = sorted(folder.rglob("*.json"))
        return cls({str(path.relative_to(folder).with_suffix("")): _result(path) for path in files})

    def __getitem__(self, name: str) -> Result:
        return self.entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def below(self, prefix: str) -> list[str]:
        """Names of the results of a data set, such as `sets/shuffling`."""
        return [name for name in self.entries if name.rsplit("/", 1)[0] == prefix]

    def summary(self) -> str:
        """The content of `results.json`: all but configurations and protocols, a line for every result."""
        lines = [f"{json.dumps(name)}: {json.dumps(_compact(told))}" for name, told in self.entries.items()]
        return "{\n" + ",\n".join(lines) + "\n}\n"


def _compact(told: Result) -> dict[str, Any]:
    out = {key: value for key, value in told.items() if key not in _DROPPED}
    if "runs" in out:
        # Tables of costs have runs of their own kind, which are short.
        out["runs"] = [
            {key: run[key] for key in _KEPT if key in run} if "metrics" in run else run for run in out["runs"]
        ]
    return out


def _paper_row(told: Mapping[str, Any]) -> PaperRow:
    return PaperRow(told["row"], told["table"], told["metrics"], told.get("spread", {}))


def _result(path: Path) -> Result:
    told = _read(path)
    if not isinstance(told, dict) or not told or not isinstance(told.get("metrics", {}), dict):
        raise StorageError(f"{path} holds no results; move it away.")
    return told


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}; check the path.") from error
    except ValueError as error:
        raise StorageError(f"{path} holds no results; move it away.") from error
