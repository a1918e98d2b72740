"""The figures inside the package: current, complete, and with their places in the paper."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from catnf.errors import StorageError
from catnf.experiments import experiment_names
from catnf.reference import SUMMARY, Results, load_paper
from catnf.reporting.tables import readme_tables

ROOT = Path(__file__).parents[2]


def test_the_summary_is_that_of_results() -> None:
    made = Results.of_folder(ROOT / "results").summary()
    assert made == SUMMARY.read_text(), "run python benchmarks/results_table.py"


def test_tables_of_the_summary_are_those_of_the_files() -> None:
    paper = load_paper()
    whole = readme_tables(Results.of_folder(ROOT / "results"), paper)
    assert readme_tables(Results.bundled(), paper) == whole


def test_every_row_of_the_paper_has_its_place() -> None:
    paper = load_paper()
    rows = [*paper.rows.values(), *(row for some in paper.others.values() for row in some)]
    assert all(row.table and row.name and row.metrics for row in rows)
    unknown = set(paper.rows).difference(experiment_names())
    assert {name.rsplit("/", 1)[0] for name in unknown} <= {"text/wikitext103"}, "which nobody can train here"
    for row in rows:
        assert set(row.spread) <= set(row.metrics)


def test_results_of_a_folder(tmp_path: Path) -> None:
    assert len(Results.of_folder(tmp_path / "none")) == 0
    (tmp_path / "a").mkdir()
    run = {"metrics": {"m": 1.5}, "seeds": [0], "config": {"big": 1}, "training": {"seconds": 2}}
    (tmp_path / "a" / "b.json").write_text(json.dumps({**run, "runs": [run]}))
    results = Results.of_folder(tmp_path)
    assert results.below("a") == ["a/b"]
    compact = json.loads(results.summary())["a/b"]
    assert compact["runs"] == [{"metrics": {"m": 1.5}, "seeds": [0], "training": {"seconds": 2}}]
    assert "config" not in compact
    for content in ("{", "[]", "{}", '{"metrics": 3}'):
        (tmp_path / "a" / "c.json").write_text(content)
        with pytest.raises(StorageError, match=r"c\.json holds no results"):
            Results.of_folder(tmp_path)
