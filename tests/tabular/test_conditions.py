"""Rows given rare values and ranges of numbers."""

from __future__ import annotations

import numpy as np
import pytest

from catnf.errors import InputError

pd = pytest.importorskip("pandas", reason="needs the extra table")
pytest.importorskip("sklearn", reason="needs the extra table")

from catnf.tabular import CategoricalFlow  # noqa: E402


def test_a_given_rare_value_is_the_one_that_comes_back() -> None:
    table = pd.DataFrame({"name": ["a"] * 50 + list("bcdefghijk"), "on": [True, False] * 30})
    flow = CategoricalFlow(rare=3, random_state=0, max_steps=5).fit(table)
    drawn = flow.sample(8, given={"name": "c"})
    assert drawn["name"].tolist() == ["c"] * 8
    assert drawn["name"].dtype == table["name"].dtype


def test_ranges_hold_the_most_frequent_numbers_too() -> None:
    """Numbers of many rows are categories of their own, which a range includes like any other number."""
    random = np.random.default_rng(0)
    hours = np.where(random.random(400) < 0.5, 40, random.integers(1, 99, 400))
    gain = np.where(random.random(400) < 0.5, 0, random.integers(100, 200, 400))
    flow = CategoricalFlow(random_state=0, max_steps=100).fit(pd.DataFrame({"hours": hours, "gain": gain}))
    free = flow.sample(2000)["hours"]
    drawn = flow.sample(1000, given={"hours": (20, 60)})["hours"]
    assert drawn.between(20, 60).all()
    assert (drawn == 40).mean() == pytest.approx((free[free.between(20, 60)] == 40).mean(), abs=0.08)
    assert set(flow.sample(50, given={"gain": (-5, 50)})["gain"]) == {0}
    with pytest.raises(InputError, match=r"'gain' held whole numbers from 0 to .* is 20 to 50"):
        flow.sample(1, given={"gain": (20, 50)})
