"""The estimator on small tables: likelihoods, samples, gaps, files, frames and refusals."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catnf.errors import InputError, StorageError

pd = pytest.importorskip("pandas", reason="needs the extra table")
pl = pytest.importorskip("polars", reason="needs the extra table")
pytest.importorskip("sklearn", reason="needs the extra table")

from catnf.tabular import CategoricalFlow  # noqa: E402


def made(rows: int = 400, seed: int = 0) -> Any:
    """A table with every kind of column: `shape` follows `color`, `size` follows both."""
    random = np.random.default_rng(seed)
    color = random.choice(["red", "green", "blue"], rows, p=[0.5, 0.3, 0.2])
    same = random.random(rows) < 0.95
    shape = np.where(same, np.where(color == "red", "round", "flat"), "odd").astype(object)
    size = np.where(color == "red", 1.0, 5.0) + 0.5 * random.standard_normal(rows)
    count = random.poisson(30, rows)
    shape[random.random(rows) < 0.1] = None
    return pd.DataFrame(
        {
            "color": pd.Categorical(color, categories=["blue", "green", "red"], ordered=True),
            "shape": shape,
            "size": size,
            "count": count,
            "flag": random.random(rows) < 0.3,
            "grade": random.integers(1, 4, rows).astype(np.int8),
        }
    )


@pytest.fixture(scope="module")
def table() -> Any:
    return made()


@pytest.fixture(scope="module")
def flow(table: Any) -> CategoricalFlow:
    return CategoricalFlow(random_state=0, max_steps=120, draws=8).fit(table)


def test_kinds_of_columns(flow: CategoricalFlow) -> None:
    assert flow.columns_ == {
        "color": "categorical",
        "shape": "categorical",
        "size": "continuous",
        "count": "integer",
        "flag": "categorical",
        "grade": "categorical",
    }
    assert flow.n_features_in_ == 6
    assert flow.n_steps_ <= 120


def test_likelihoods_tell_dependent_cells_apart(flow: CategoricalFlow, table: Any) -> None:
    scores = flow.score_samples(table)
    assert scores.shape == (len(table),)
    assert np.isfinite(scores).all()
    assert np.allclose(flow.score_parts(table).sum(1), scores)
    assert flow.score(table) == pytest.approx(scores.mean())
    shuffled = table.assign(size=table["size"].to_numpy()[::-1], color=table["color"].to_numpy()[::-1])
    shuffled["shape"] = table["shape"].sample(frac=1, random_state=1).to_numpy()
    assert flow.score(shuffled) < flow.score(table) - 0.2
    assert np.array_equal(scores, flow.score_samples(table)), "the same seed gives the same draws"


def test_samples_look_like_the_table(flow: CategoricalFlow, table: Any) -> None:
    drawn = flow.sample(2000)
    assert list(drawn.columns) == list(table.columns)
    assert (drawn.dtypes == table.dtypes).all()
    assert drawn["color"].cat.ordered
    shares = drawn["color"].value_counts(normalize=True) - table["color"].value_counts(normalize=True)
    assert shares.abs().max() < 0.1
    assert set(drawn["shape"].dropna()) <= {"round", "flat", "odd"}
    assert drawn["shape"].isna().mean() == pytest.approx(0.1, abs=0.08)
    assert drawn["count"].median() == pytest.approx(30, abs=3)
    assert flow.sample(5).equals(flow.sample(5))
    assert not flow.sample(5, random_state=1).equals(flow.sample(5, random_state=2))


def test_gaps_are_filled_and_other_cells_stay(flow: CategoricalFlow, table: Any) -> None:
    gappy = table.head(60).copy()
    gappy.loc[gappy.index % 3 == 0, "color"] = np.nan
    gappy.loc[gappy.index % 3 == 1, "size"] = np.nan
    gappy.loc[gappy.index % 6 == 1, "flag"] = False
    filled = flow.impute(gappy)
    assert not filled.isna().any().any()
    assert (filled.dtypes == gappy.dtypes).all()
    known = ~gappy.isna()
    assert all((filled[name] == gappy[name])[known[name]].all() for name in gappy.columns)
    truth = table.head(60)
    hidden = gappy["size"].isna() & truth["color"].notna()
    red = truth["color"] == "red"
    assert filled["size"][hidden & red].median() < filled["size"][hidden & ~red].median()


def test_anomalies(flow: CategoricalFlow, table: Any) -> None:
    strange = pd.concat([table, table.head(1).assign(size=40.0, count=900)], ignore_index=True)
    found = flow.anomalies(strange, top=3)
    assert len(found) == 3
    assert found.index[0] == len(table)
    assert found["log_likelihood"].is_monotonic_increasing
    with pytest.raises(InputError, match="top is 0"):
        flow.anomalies(table, top=0)


def test_saved_and_loaded(flow: CategoricalFlow, table: Any, tmp_path: Path) -> None:
    path = flow.save(tmp_path / "model")
    again = CategoricalFlow.load(tmp_path / "model")
    assert again.get_params() == {**flow.get_params(), "categorical": []}
    assert np.array_equal(again.score_samples(table), flow.score_samples(table))
    assert again.sample(20).equals(flow.sample(20))
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(StorageError, match="truncated or corrupt"):
        CategoricalFlow.load(path)


def test_polars_in_and_out() -> None:
    frame = pl.DataFrame(
        {
            "name": pl.Series(["a", "b", "a", "c"] * 10, dtype=pl.Categorical),
            "value": pl.Series([1, None, 300, 7, 5000, 6, 12, 90] * 5, dtype=pl.Int32),
            "real": np.linspace(0, 1, 40),
            "on": [True, False] * 20,
        }
    )
    fitted = CategoricalFlow(random_state=0, max_steps=2).fit(frame)
    drawn = fitted.sample(7)
    assert isinstance(drawn, pl.DataFrame)
    assert drawn.schema == frame.schema
    assert fitted.impute(frame).null_count().sum_horizontal().item() == 0
    assert fitted.score_samples(frame).shape == (40,)
    assert isinstance(fitted.anomalies(frame, top=2), pl.DataFrame)


def test_unseen_values_are_unlikely_or_refused(flow: CategoricalFlow, table: Any) -> None:
    known = table.head(4).astype({"color": object})
    new = known.assign(color=["pink", "red", "red", "red"])
    assert flow.score_samples(new)[0] < flow.score_samples(known)[0] - 2
    strict = CategoricalFlow(unseen="error", random_state=0)
    strict._take(flow.table_)
    with pytest.raises(InputError, match="'color' holds 'pink' in row 0"):
        strict.score_samples(new)


def test_rare_values_share_a_category_and_come_back() -> None:
    table = pd.DataFrame({"name": ["a"] * 50 + ["b"] * 40 + list("cdefghijkl"), "on": [True, False] * 50})
    flow = CategoricalFlow(rare=3, random_state=0, max_steps=30).fit(table)
    assert flow.table_.code.sizes == (3, 2)
    rare, common = (table[table["name"] == name].head(1) for name in "ca")
    assert flow.score(rare) < flow.score(common) - 1
    assert set(flow.sample(2000)["name"]) >= set("abcdef")


def test_columns_that_are_all_gaps_are_filled(table: Any) -> None:
    flow = CategoricalFlow(random_state=0, max_steps=5, missing="impute").fit(table)
    gone = table.head(6).assign(
        shape=np.nan, color=pd.Categorical([None] * 6, categories=["blue"], ordered=True), count=np.nan
    )
    filled = flow.impute(gone)
    assert not filled.isna().any().any()
    assert filled["color"].dtype == table["color"].dtype


def test_gaps_are_not_what_an_unseen_value_is_taken_for() -> None:
    table = pd.DataFrame({"name": [None] * 90 + ["a"] * 6 + ["b"] * 4, "on": [True, False] * 50})
    code = CategoricalFlow(random_state=0, max_steps=1).fit(table).table_.code
    rows = code.encode(pd.DataFrame({"name": ["zzz", "b", None], "on": [True] * 3}))
    assert rows.x[0, 0] == rows.x[1, 0] != rows.x[2, 0]


def test_gaps_of_samples_are_filled_where_asked(table: Any) -> None:
    filled = CategoricalFlow(missing="impute", random_state=0, max_steps=5).fit(table)
    assert not filled.sample(100).isna().any().any()


def test_thousands_of_categories_stay_small() -> None:
    names = [f"id{index}" for index in np.random.default_rng(0).zipf(1.3, 4000) % 10_000]
    names[: 10_000 // 4] = [f"id{index}" for index in range(2500)]
    table = pd.DataFrame({"name": names, "on": np.arange(4000) % 2 == 0})
    flow = CategoricalFlow(random_state=0, max_steps=3, draws=2).fit(table)
    assert max(flow.table_.code.sizes) < 100
    code = flow.table_.code
    rows = code.encode(table)
    back = code.decode(rows.x, rows.numbers, np.random.default_rng(0))
    assert back.equals(table)
    assert set(flow.sample(50)["name"]) <= set(names)


def test_constant_and_empty_columns_are_kept_as_they_are() -> None:
    table = pd.DataFrame({"same": "x", "none": [None] * 30, "on": [True, False] * 15})
    with pytest.warns(UserWarning, match="Kept as constant and not modelled: 'same', 'none'"):
        flow = CategoricalFlow(random_state=0, max_steps=3).fit(table)
    drawn = flow.sample(5)
    assert set(drawn["same"]) == {"x"}
    assert drawn["none"].isna().all()
    other = flow.score_samples(table.head(1).assign(same="y"))
    assert other[0] < flow.score_samples(table.head(1))[0] - 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lone = CategoricalFlow().fit(table[["same"]])
    assert lone.score(table[["same"]]) == 0.0
    with pytest.raises(InputError, match="no column 'nope'"):
        lone.sample(3, given={"nope": 1})
    with pytest.raises(InputError, match="never held 'y'"):
        lone.sample(3, given={"same": "y"})
    assert len(lone.sample(3)) == 3


def test_numbers_alone() -> None:
    random = np.random.default_rng(0)
    values = random.standard_normal((200, 2)) * [1.0, 100.0]
    flow = CategoricalFlow(random_state=0, max_steps=60).fit(values)
    assert flow.sample(4).shape == (4, 2)
    # The density is in the units of the data: close to that of the normal distributions themselves.
    expected = -np.log(2 * np.pi) - np.log(100.0) - 1.0
    assert flow.score(values) == pytest.approx(expected, abs=0.6)


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (lambda t: t.iloc[:0], "0 rows"),
        (lambda t: t.iloc[:1], "single row"),
        (lambda t: t[[]], "no columns"),
        (lambda t: pd.concat([t, t["flag"]], axis=1), "'flag' is there twice"),
        (lambda t: t.assign(when=pd.Timestamp("2020-01-01")), "'when' holds dates"),
        (lambda t: t.assign(size=np.inf), "'size' holds infinite numbers"),
        (lambda t: t.assign(shape=[[1]] * len(t)), "'shape'"),
    ],
)
def test_tables_that_cannot_be_fitted(table: Any, bad: Any, told: str) -> None:
    with pytest.raises((InputError, TypeError), match=told):
        CategoricalFlow(max_steps=1).fit(bad(table))


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (lambda t: t.drop(columns="size"), "lacks the column 'size'"),
        (lambda t: t.assign(extra=1), "without the column 'extra'"),
        (lambda t: t.assign(size="large"), "'size' was fitted to numbers"),
        (lambda t: t.to_numpy()[:, :4], "6 features"),
    ],
)
def test_tables_that_cannot_be_scored(flow: CategoricalFlow, table: Any, bad: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        flow.score_samples(bad(table))


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"missing": "drop"}, "missing is 'drop'"),
        ({"draws": 0}, "draws is 0"),
        ({"categorical": ["nothing"]}, "'nothing'"),
        ({"max_seconds": -1.0}, "max_seconds is -1"),
    ],
)
def test_parameters_that_mean_nothing(table: Any, parameters: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        CategoricalFlow(**parameters).fit(table)


@pytest.mark.slow
def test_scikit_learn_accepts_it() -> None:
    from sklearn.utils.estimator_checks import check_estimator

    place = "draws of the bound depend on a row's place in the table"
    checked = check_estimator(
        CategoricalFlow(max_steps=2, draws=1, random_state=0),
        on_skip=None,
        on_fail=None,
        expected_failed_checks={
            "check_dtype_object": "what cannot be a category is an InputError, not a TypeError",
            "check_methods_sample_order_invariance": place,
            "check_methods_subset_invariance": place,
        },
    )
    failed = {check["check_name"]: check["exception"] for check in checked if check["status"] == "failed"}
    assert not failed
    assert sum(check["status"] == "passed" for check in checked) > 30


def test_given_values_and_ranges(flow: CategoricalFlow) -> None:
    drawn = flow.sample(100, given={"color": "red", "count": (25, 35)})
    assert set(drawn["color"]) == {"red"}
    assert drawn["count"].between(25, 35).all()
    free = flow.sample(300, given={"color": "red"})["size"].median()
    other = flow.sample(300, given={"color": "green"})["size"].median()
    assert free < other
    assert set(flow.sample(10, given={"count": 30})["count"]) == {30}
    assert set(flow.sample(50, given={"count": (29.5, 31.9)})["count"]) <= {30, 31}
    assert flow.sample(50, given={"count": (30, 1000)})["count"].between(30, 1000).all()
    assert flow.sample(50, given={"count": [np.int64(30), np.inf]})["count"].ge(30).all()
    assert flow.sample(50, given={"size": (-np.inf, 2.5)})["size"].le(2.5).all()
    with pytest.warns(UserWarning, match="effective rows"):
        flow.sample(250, given={"count": (48, 60), "grade": 1, "color": "blue"})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"colour": "red"}, "Did you mean 'color'"),
        ({"color": "pink"}, "never held 'pink'"),
        ({"size": 1.5}, r"give a range \(low, high\)"),
        ({"size": (3.0, 1.0)}, "give \\(low, high\\)"),
        ({"count": (900, 950)}, "'count' held whole numbers from .* and none of these is 900 to 950"),
        ({"count": 900}, "none of these is 900;"),
        ({"count": (25.2, 25.8)}, "none of these is 25.2 to 25.8"),
        ({"size": (1e6, 2e6)}, r"'size' held from .* is 1000000 to 2000000"),
        ({"size": (float("nan"), 2.0)}, "give \\(low, high\\)"),
        ({"size": ("1", "2")}, "give \\(low, high\\)"),
        ({"color": ("red", "blue")}, "'color' has no range of numbers"),
    ],
)
def test_what_cannot_be_given_is_refused(flow: CategoricalFlow, given: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        flow.sample(3, given=given)
