"""Rows given rare values and ranges of numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from catnf.errors import InputError

pd = pytest.importorskip("pandas", reason="needs the extra table")
pytest.importorskip("sklearn", reason="needs the extra table")

from catnf.tabular import CategoricalFlow  # noqa: E402
from catnf.tabular.coding import TableCode  # noqa: E402
from catnf.tabular.conditions import conditions  # noqa: E402
from catnf.tabular.schema import learn_column  # noqa: E402


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


def test_numbers_keep_the_decimals_of_the_table() -> None:
    """Prices have cents, weights in single precision a digit; what was measured has all its digits."""
    random = np.random.default_rng(0)
    price = random.uniform(1, 9, 400).round(2)
    weight = random.normal(50, 9, 400).round(1).astype(np.float32)
    table = pd.DataFrame({"price": price, "weight": weight, "noise": random.normal(size=400)})
    flow = CategoricalFlow(random_state=0, max_steps=60).fit(table)
    drawn = flow.sample(300)
    assert (drawn["price"].round(2) == drawn["price"]).all()
    assert (drawn["weight"].round(1) == drawn["weight"]).all()
    assert drawn["weight"].dtype == np.float32
    assert (drawn["noise"].round(6) != drawn["noise"]).all()
    assert drawn["price"].nunique() > 150
    gaps = table.head(20).copy()
    gaps.loc[:9, "price"] = np.nan
    filled = CategoricalFlow(missing="impute", random_state=0, max_steps=60).fit(table).impute(gaps)["price"]
    assert (filled.round(2) == filled).all()


def test_ranges_are_of_numbers_with_their_decimals() -> None:
    """What is drawn rounds to a number within the range, any of them; one number may be given as well."""
    random = np.random.default_rng(0)
    table = pd.DataFrame({"size": random.uniform(0, 2, 500).round(1), "on": random.random(500) < 0.5})
    flow = CategoricalFlow(random_state=0, max_steps=60).fit(table)
    assert set(flow.sample(200, given={"size": (0.25, 0.5)})["size"]) == {0.3, 0.4, 0.5}
    assert set(flow.sample(20, given={"size": 0.7})["size"]) == {0.7}
    with pytest.raises(InputError, match=r"'size' held numbers of 1 decimal from 0 to 2 .* is 0.25 to 0.28"):
        flow.sample(1, given={"size": (0.25, 0.28)})
    with pytest.raises(InputError, match=r"numbers of 1 decimal .* is 0.75;"):
        flow.sample(1, given={"size": 0.75})


@pytest.mark.parametrize("dtype", ["float32", "Float32", "float64"])
@pytest.mark.parametrize("most", [100.0, 100_000.0])
def test_every_number_of_a_table_can_be_given(dtype: str, most: float) -> None:
    """As it is stored, and as it is written, the smallest and the largest one too."""
    random = np.random.default_rng(0)
    written = random.uniform(most / 4, most, 300).round(1)
    column = learn_column("w", pd.Series(written).astype(dtype), categorical=False, rare=1)
    assert (column.decimals, column.low, column.high) == (1, written.min(), written.max())
    code = TableCode((column,), len(written))
    for number in (*written.tolist(), *np.asarray(pd.Series(written).astype(dtype), float).tolist()):
        (condition,) = conditions(code, {"w": number})
        assert condition.ends is not None
        low, high = (end * column.scale + column.center for end in condition.ends)
        assert high - low == pytest.approx(0.1) or math.isinf(high - low)
        assert low < number < high


def test_decimals_are_of_what_is_not_frequent() -> None:
    random = np.random.default_rng(0)
    often = random.random(500) < 0.3
    cents = np.where(often, 0.123456789, random.uniform(1, 9, 500).round(2))
    assert learn_column("c", pd.Series(cents), False, 1).decimals == 2
    halves = pd.Series(np.where(often, 0.5, random.integers(1, 90, 500)))
    column = learn_column("h", halves, False, 1)
    assert (column.kind, column.decimals) == ("continuous", 0)


@pytest.mark.parametrize("numbers", [np.arange(100), np.arange(100) / 10, np.arange(100) / 7])
@pytest.mark.parametrize("ends", [(np.inf, np.inf), (-np.inf, -np.inf), (1e308, 1.5e308), (-1e308, -1e300)])
def test_ranges_far_beyond_the_table_are_refused(numbers: np.ndarray, ends: tuple[float, float]) -> None:
    code = TableCode((learn_column("w", pd.Series(numbers), False, 1),), 100)
    with pytest.raises(InputError, match="none of these is"):
        conditions(code, {"w": ends})
    assert len(conditions(code, {"w": (-np.inf, np.inf)})) == 1
