"""Gaps as cells that are not known: learned around, left out of likelihoods, filled in samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pd = pytest.importorskip("pandas", reason="needs the extra table")
pytest.importorskip("sklearn", reason="needs the extra table")

from catnf.tabular import CategoricalFlow  # noqa: E402
from catnf.tabular.report import make_report  # noqa: E402


def made(rows: int = 500) -> Any:
    """Shape follows color and size follows shape; most shapes of red rows and some sizes are hidden."""
    random = np.random.default_rng(0)
    red = random.random(rows) < 0.5
    round_ = np.where(random.random(rows) < 0.95, red, ~red)
    table = pd.DataFrame(
        {
            "color": np.where(red, "red", "blue"),
            "shape": np.where(round_, "round", "flat").astype(object),
            "size": np.where(round_, 2.0, 9.0) + 0.5 * random.standard_normal(rows),
            "flag": random.random(rows) < 0.3,
        }
    )
    table.loc[red & (random.random(rows) < 0.7), "shape"] = None
    table.loc[random.random(rows) < 0.1, "size"] = np.nan
    return table


@pytest.fixture(scope="module")
def table() -> Any:
    return made()


@pytest.fixture(scope="module")
def flow(table: Any) -> CategoricalFlow:
    return CategoricalFlow(missing="impute", random_state=0, max_steps=150, draws=32).fit(table)


def test_samples_have_the_values_that_gaps_hide(flow: CategoricalFlow, table: Any) -> None:
    drawn = flow.sample(2000)
    assert not drawn.isna().any().any()
    assert (drawn.dtypes == table.dtypes).all()
    # Among the shapes that are known few are round; hidden are those of red rows, nearly all of them round.
    assert (table["shape"].dropna() == "round").mean() < 0.3
    assert (drawn["shape"] == "round").mean() == pytest.approx(0.5, abs=0.1)
    assert (drawn["shape"] == "round")[drawn["color"] == "red"].mean() > 0.8


def test_likelihoods_are_of_the_known_cells(flow: CategoricalFlow) -> None:
    row = pd.DataFrame({"color": ["red"], "shape": ["round"], "size": [2.0], "flag": [False]})
    hidden = row.assign(size=np.nan)
    parts = [flow.score_parts(one)[0] for one in (row, hidden)]
    assert parts[1][1] == 0.0, "no number is known"
    assert parts[1][0] == pytest.approx(parts[0][0], abs=0.1), "categories come before numbers"
    # A cell that is not known stands for all of its values.
    each = [flow.score(hidden.assign(shape=value)) for value in ("round", "flat")]
    unknown = flow.score(hidden.assign(shape=None))
    assert unknown == pytest.approx(float(np.logaddexp(*each)), abs=0.2)
    assert unknown > max(each) - 0.05
    nothing = row.assign(color=None, shape=None, size=np.nan, flag=None)
    assert flow.score(nothing) == pytest.approx(0.0, abs=1e-6)


def test_gaps_are_filled_by_what_is_known(flow: CategoricalFlow, table: Any) -> None:
    filled = flow.impute(table)
    assert not filled.isna().any().any()
    hidden = table["shape"].isna()
    assert (filled["shape"][hidden] == "round").mean() > 0.8


def test_gaps_never_seen_in_fitting_cost_nothing() -> None:
    table = made().dropna()
    flow = CategoricalFlow(missing="impute", random_state=0, max_steps=5).fit(table)
    other = CategoricalFlow(missing="category", random_state=0, max_steps=5).fit(table)
    gappy = table.head(5).assign(flag=None)
    assert flow.score(gappy) > other.score(gappy) + 3


def test_independent_columns_are_of_the_known_cells_too() -> None:
    random = np.random.default_rng(0)
    table = pd.DataFrame({name: random.choice(["u", "v"], 600) for name in "ab"})
    table = table.mask(random.random(table.shape) < 0.4)
    flow = CategoricalFlow(missing="impute", random_state=0, max_steps=60).fit(table)
    report, _, _ = make_report(flow, table)
    assert report.bits_independent == pytest.approx(0.6, abs=0.05)
    assert report.bits == pytest.approx(report.bits_independent, abs=0.05)


def test_saved_and_reported(flow: CategoricalFlow, table: Any, tmp_path: Path) -> None:
    flow.save(tmp_path / "model")
    again = CategoricalFlow.load(tmp_path / "model")
    assert np.array_equal(again.score_samples(table), flow.score_samples(table))
    assert again.sample(20).equals(flow.sample(20))
    report, real, synthetic = make_report(again, table.head(100))
    assert not real.isna().any().any()
    assert not synthetic.isna().any().any()
    assert report.shapes["shape"] > 0.7


def test_on_the_command_line(run_catnf: Callable[..., Any], table: Any, tmp_path: Path) -> None:
    table.to_csv(tmp_path / "data.csv", index=False)
    for kind, gaps in (("impute", False), ("category", True)):
        done = run_catnf("fit", "data.csv", "-o", kind, "--steps", 3, "--missing", kind, "--quiet")
        assert done.code == 0, done.err
        assert run_catnf("sample", kind, "-n", 200, "--seed", 0, "-o", f"{kind}.csv").code == 0
        assert bool(pd.read_csv(tmp_path / f"{kind}.csv").isna().any().any()) == gaps
    assert run_catnf("fit", "data.csv", "-o", "model", "--missing", "drop").code == 2
