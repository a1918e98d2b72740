"""How good synthetic rows are: a comparison of a model's samples with real rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catnf.errors import InputError
from catnf.tabular.estimator import CategoricalFlow
from catnf.tabular.frames import needed, to_pandas

_MOST_ROWS = 10_000  # that are compared; more change little and take long
_MOST_NEIGHBOURS = 2_000  # rows whose nearest record is looked for
_MOST_PAIRS = 500
_MOST_BINS = 30  # of a column in pairs: frequent categories, and the others together
_BINS = 10  # of numbers


@dataclass(frozen=True)
class Report:
    """Figures about synthetic rows beside real ones.

    Attributes:
        rows: how many real and how many synthetic rows are compared.
        shapes: for every column 1 minus the distance of both distributions: total variation of categories,
            Kolmogorov-Smirnov of numbers.
        pairs: for pairs of columns 1 minus the total variation distance of their joint distributions, numbers
            in tenths.
        detection: area under the curve of a classifier that tells synthetic from real; 0.5 is best.
        target: the column that is predicted from the others.
        prediction: macro F1 on real rows of classifiers trained on other real rows and on synthetic ones.
        distances: medians over rows of the distance to the nearest record: of synthetic to real rows, and of
            real rows to other real ones; a distance is the mean difference of cells, from 0 to 1.
        copies: share of synthetic rows that equal a real row, and of real rows that equal another one.
        bits: minus the mean log-likelihood of the real rows, in bits a column.
        bits_independent: the same for independent columns with the frequencies of these very rows; `None`
            where numbers have no frequencies.
        held_out_nats: mean log-likelihood of the rows held out while fitting, in nats a row.
    """

    rows: dict[str, int]
    shapes: dict[str, float]
    pairs: dict[tuple[str, str], float]
    detection: float
    target: str | None
    prediction: dict[str, float]
    distances: dict[str, float]
    copies: dict[str, float]
    bits: float
    bits_independent: float | None
    held_out_nats: float | None

    def summary(self) -> dict[str, object]:
        """Means and single figures, ready for JSON."""
        return {
            "rows": self.rows,
            "column_shapes": float(np.mean(list(self.shapes.values()))),
            "pair_trends": float(np.mean(list(self.pairs.values()))) if self.pairs else None,
            "detection_auc": self.detection,
            "target": self.target,
            "f1": self.prediction,
            "nearest_record": self.distances,
            "copies": self.copies,
            "bits_per_column": self.bits,
            "bits_per_column_independent": self.bits_independent,
            "held_out_log_likelihood": self.held_out_nats,
        }


def make_report(
    flow: CategoricalFlow, table: Any, target: str | None = None, seed: int = 0
) -> tuple[Report, Any, Any]:
    """Compare samples of a fitted model with the rows of a table, best those that it was not fitted to.

    Args:
        flow: a fitted model.
        table: real rows with the fitted columns.
        target: the column to predict; by default the last categorical one.
        seed: of the samples and of all choices.

    Returns:
        The figures, and the real and the synthetic rows they are about, as pandas frames.
    """
    frame, _ = to_pandas(table, list(flow.columns_))
    random = np.random.default_rng(seed)
    if len(frame) > _MOST_ROWS:
        frame = frame.iloc[np.sort(random.choice(len(frame), _MOST_ROWS, replace=False))]
    if len(frame) < 10:
        raise InputError(f"The table has {len(frame)} rows; a report needs at least 10.")
    bits = flow.bits_per_column(frame)
    real = frame[list(flow.columns_)].reset_index(drop=True)
    synthetic, _ = to_pandas(flow.sample(len(real), random_state=seed), list(flow.columns_))
    target = _target(flow, target)
    modelled = [name for name, kind in flow.columns_.items() if kind != "constant"]
    codes = {name: _bins(real[name], synthetic[name], flow.columns_[name]) for name in modelled}
    pairs = list(combinations(modelled, 2))
    if len(pairs) > _MOST_PAIRS:
        pairs = [pairs[index] for index in np.sort(random.choice(len(pairs), _MOST_PAIRS, replace=False))]
    distances, copies = _nearest(real, synthetic, flow.columns_, random)
    report = Report(
        rows={"real": len(real), "synthetic": len(synthetic)},
        shapes={name: _shape(real[name], synthetic[name], flow.columns_[name]) for name in modelled},
        pairs={pair: _pair(codes[pair[0]], codes[pair[1]]) for pair in pairs},
        detection=_detection(real, synthetic, flow.columns_, seed),
        target=target,
        prediction=_prediction(real, synthetic, flow.columns_, target, seed) if target else {},
        distances=distances,
        copies=copies,
        bits=bits,
        bits_independent=_independent(real, flow.columns_),
        held_out_nats=flow.held_out_log_likelihood_,
    )
    return report, real, synthetic


def _target(flow: CategoricalFlow, asked: str | None) -> str | None:
    names = [name for name, kind in flow.columns_.items() if kind == "categorical"]
    if asked is None:
        return names[-1] if names and len(flow.columns_) > 1 else None
    if asked not in names:
        shown = ", ".join(names[:8]) or "none"
        raise InputError(f"The target {asked!r} is no categorical column; choose one of: {shown}.")
    return asked


def _is_number(kind: str) -> bool:
    return kind in ("integer", "continuous")


def _shape(real: Any, synthetic: Any, kind: str) -> float:
    if not _is_number(kind):
        a, b = (
            series.astype(object).fillna("?").value_counts(normalize=True) for series in (real, synthetic)
        )
        return 1.0 - 0.5 * float(a.subtract(b, fill_value=0.0).abs().sum())
    left, right = (np.sort(series.dropna().to_numpy(dtype=np.float64)) for series in (real, synthetic))
    if not len(left) or not len(right):
        return float(len(left) == len(right))
    points = np.concatenate([left, right])
    below = [np.searchsorted(values, points, side="right") / len(values) for values in (left, right)]
    return 1.0 - float(np.abs(below[0] - below[1]).max())


def _bins(real: Any, synthetic: Any, kind: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Both columns in few bins: tenths of numbers, frequent categories; gaps are a bin of their own."""
    if _is_number(kind):
        values = real.dropna().to_numpy(dtype=np.float64)
        inner = np.linspace(0, 1, _BINS + 1)[1:-1]
        edges = np.unique(np.quantile(values, inner)) if len(values) else np.zeros(0)
        out = []
        for series in (real, synthetic):
            numbers = series.to_numpy(dtype=np.float64, na_value=np.nan)
            codes = np.searchsorted(edges, numbers, side="right")
            out.append(np.where(np.isnan(numbers), _BINS, codes).astype(np.int64))
        return out[0], out[1]
    plain = [series.astype(object).fillna("?").astype(str) for series in (real, synthetic)]
    frequent = plain[0].value_counts().index[: _MOST_BINS - 1]
    found = [frequent.get_indexer(series) for series in plain]
    return found[0].astype(np.int64) % _MOST_BINS, found[1].astype(np.int64) % _MOST_BINS


def _pair(
    first: tuple[NDArray[np.int64], NDArray[np.int64]], second: tuple[NDArray[np.int64], NDArray[np.int64]]
) -> float:
    tables = []
    for one, two in zip(first, second, strict=True):
        joint = np.bincount(one * _MOST_BINS + two, minlength=_MOST_BINS**2)
        tables.append(joint / joint.sum())
    return 1.0 - 0.5 * float(np.abs(tables[0] - tables[1]).sum())


def _features(frames: list[Any], kinds: Mapping[str, str], names: list[str]) -> list[NDArray[np.float64]]:
    """Columns as numbers for trees: categories by their place among all values, gaps as NaN."""
    pandas = needed("pandas")
    parts: list[list[NDArray[np.float64]]] = [[] for _ in frames]
    for name in names:
        if _is_number(kinds[name]):
            values = [frame[name].to_numpy(dtype=np.float64, na_value=np.nan) for frame in frames]
        else:
            whole = pandas.concat([frame[name].astype(object) for frame in frames])
            codes = pandas.factorize(whole.astype(str).where(~whole.isna()))[0].astype(np.float64)
            codes[codes < 0] = np.nan
            ends = np.cumsum([len(frame) for frame in frames])[:-1]
            values = np.split(codes, ends)
        for part, own in zip(parts, values, strict=True):
            part.append(own)
    return [np.stack(part, axis=1) for part in parts]


def _classifier(seed: int) -> Any:
    trees = needed("sklearn.ensemble")
    return trees.HistGradientBoostingClassifier(max_iter=60, random_state=seed, early_stopping=False)


def _detection(real: Any, synthetic: Any, kinds: Mapping[str, str], seed: int) -> float:
    selection = needed("sklearn.model_selection")
    metrics = needed("sklearn.metrics")
    x = np.concatenate(_features([real, synthetic], kinds, list(kinds)))
    y = np.repeat([0, 1], [len(real), len(synthetic)])
    folds = selection.StratifiedKFold(3, shuffle=True, random_state=seed)
    odds = selection.cross_val_predict(_classifier(seed), x, y, cv=folds, method="predict_proba")[:, 1]
    return float(metrics.roc_auc_score(y, odds))


def _prediction(
    real: Any, synthetic: Any, kinds: Mapping[str, str], target: str, seed: int
) -> dict[str, float]:
    """Macro F1 on a quarter of the real rows, trained on the others and on as many synthetic ones."""
    metrics = needed("sklearn.metrics")
    order = np.random.default_rng(seed).permutation(len(real))
    test, train = real.iloc[order[: len(real) // 4]], real.iloc[order[len(real) // 4 :]]
    fake = synthetic.iloc[: len(train)]
    names = [name for name in kinds if name != target]
    x_test, x_train, x_fake = _features([test, train, fake], kinds, names)
    labels = [
        frame[target].astype(object).fillna("?").astype(str).to_numpy() for frame in (test, train, fake)
    ]
    scores = {}
    for name, x, y in (("real", x_train, labels[1]), ("synthetic", x_fake, labels[2])):
        if len(np.unique(y)) == 1:
            guessed = np.repeat(y[0], len(x_test))
        else:
            guessed = _classifier(seed).fit(x, y).predict(x_test)
        scores[name] = float(metrics.f1_score(labels[0], guessed, average="macro", zero_division=0.0))
    return scores


def _nearest(
    real: Any, synthetic: Any, kinds: Mapping[str, str], random: np.random.Generator
) -> tuple[dict[str, float], dict[str, float]]:
    names = list(kinds)
    x_real, x_fake = _features([real, synthetic], kinds, names)
    is_number = np.array([_is_number(kinds[name]) for name in names])
    low, high = (np.nanquantile(x_real, end, axis=0) for end in (0.0, 1.0))
    span = np.where(high > low, high - low, 1.0)
    some = random.choice(len(x_real), min(len(x_real), _MOST_NEIGHBOURS), replace=False)
    fake = _distances(x_fake[:_MOST_NEIGHBOURS], x_real, is_number, span)
    own = _distances(x_real[some], x_real, is_number, span, some)
    distances = {"synthetic_to_real": float(np.median(fake)), "real_to_real": float(np.median(own))}
    return distances, {"synthetic": float((fake == 0).mean()), "real": float((own == 0).mean())}


def _distances(
    rows: NDArray[np.float64],
    records: NDArray[np.float64],
    is_number: NDArray[np.bool_],
    span: NDArray[np.float64],
    same: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """The distance of every row to its nearest record, itself left out where `same` names it: `[rows]`."""
    out = np.empty(len(rows))
    gaps = np.isnan(records)
    for index, row in enumerate(rows):
        with np.errstate(invalid="ignore"):
            apart = np.where(is_number, np.abs(records - row) / span, records != row)
        apart = np.where(gaps | np.isnan(row), gaps != np.isnan(row), np.minimum(apart, 1.0))
        total = apart.mean(axis=1)
        if same is not None:
            total[same[index]] = math.inf
        out[index] = total.min()
    return out


def _independent(real: Any, kinds: Mapping[str, str]) -> float | None:
    if any(_is_number(kind) for kind in kinds.values()):
        return None
    total = 0.0
    for name in kinds:
        shares = real[name].astype(object).fillna("?").value_counts(normalize=True).to_numpy()
        total -= float((shares * np.log2(shares)).sum())
    return total / len(kinds)
