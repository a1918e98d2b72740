"""Gaps of numbers, filled as the numbers are distributed."""

from __future__ import annotations

import numpy as np
import pytest

pd = pytest.importorskip("pandas", reason="needs the extra table")
pytest.importorskip("sklearn", reason="needs the extra table")

from catnf.tabular import CategoricalFlow  # noqa: E402


def test_whole_numbers_are_filled_as_they_are_distributed() -> None:
    """Nothing tells a gap's value, so that they have the distribution of the column, every number of it."""
    random = np.random.default_rng(0)
    table = pd.DataFrame({"age": random.integers(20, 60, 3000), "on": random.random(3000) < 0.5})
    flow = CategoricalFlow(random_state=0, max_steps=150, missing="impute").fit(table)
    gappy = table.head(1500).astype({"age": "Int64"})
    gappy["age"] = pd.NA
    filled = flow.impute(gappy)["age"].to_numpy(dtype=np.float64)
    drawn = flow.sample(3000)["age"].to_numpy(dtype=np.float64)
    assert filled.mean() == pytest.approx(drawn.mean(), abs=1.0)
    assert len(np.unique(filled)) == 40
    frequent = np.where(random.random(3000) < 0.3, 7, random.choice([3, 4, 5, 6, 8, 9, *range(50, 90)], 3000))
    flow = CategoricalFlow(random_state=0, max_steps=150, missing="impute").fit(table.assign(age=frequent))
    share = (flow.impute(gappy)["age"] == 7).mean()
    assert share == pytest.approx((flow.sample(3000)["age"] == 7).mean(), abs=0.06)


def test_the_unit_of_a_column_does_not_matter_for_its_gaps() -> None:
    random = np.random.default_rng(0)
    numbers = np.where(random.random(600) < 0.5, 0.0, random.standard_normal(600) + 2.0)
    filled = []
    for unit in (1.0, 1e-10):
        table = pd.DataFrame({"size": numbers * unit, "on": random.permutation(600) < 300})
        flow = CategoricalFlow(random_state=0, max_steps=60, missing="impute").fit(table)
        filled.append(flow.impute(table.assign(size=np.nan))["size"].to_numpy() / unit)
    assert (filled[0] == 0).mean() == pytest.approx(0.5, abs=0.15)
    assert (filled[1] == 0).mean() == pytest.approx((filled[0] == 0).mean(), abs=0.1)
