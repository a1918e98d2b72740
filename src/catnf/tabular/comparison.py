"""Figures that compare synthetic rows with real ones, whatever drew them.

Frames are pandas frames with the same columns; `kinds` names the kind of each: `"categorical"`, `"integer"`,
`"continuous"` or `"constant"`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catnf.tabular.frames import needed

_MOST_BINS = 30  # of a column in pairs: frequent categories, and the others together
_BINS = 10  # of numbers


def shape_scores(real: Any, synthetic: Any, kinds: Mapping[str, str]) -> dict[str, float]:
    """For every column 1 minus the distance of both distributions.

    It is the total variation distance of categories and that of Kolmogorov and Smirnov of numbers.
    """
    return {
        name: _shape(real[name], synthetic[name], kind) for name, kind in kinds.items() if kind != "constant"
    }


def pair_scores(
    real: Any,
    synthetic: Any,
    kinds: Mapping[str, str],
    pairs: Sequence[tuple[str, str]] | None = None,
) -> dict[tuple[str, str], float]:
    """For pairs of columns 1 minus the total variation distance of their joint distributions.

    Numbers are in tenths of the real rows. By default every pair is compared.
    """
    names = [name for name, kind in kinds.items() if kind != "constant"]
    chosen = list(combinations(names, 2)) if pairs is None else list(pairs)
    wanted = dict.fromkeys(name for pair in chosen for name in pair)
    codes = {name: _bins(real[name], synthetic[name], kinds[name]) for name in wanted}
    return {pair: _pair(codes[pair[0]], codes[pair[1]]) for pair in chosen}


def detection_auc(real: Any, synthetic: Any, kinds: Mapping[str, str], seed: int) -> float:
    """Area under the curve of a classifier that tells synthetic from real rows; 0.5 is best."""
    selection = needed("sklearn.model_selection")
    metrics = needed("sklearn.metrics")
    x = np.concatenate(tree_features([real, synthetic], kinds, list(kinds)))
    y = np.repeat([0, 1], [len(real), len(synthetic)])
    folds = selection.StratifiedKFold(3, shuffle=True, random_state=seed)
    odds = selection.cross_val_predict(_classifier(seed), x, y, cv=folds, method="predict_proba")[:, 1]
    return float(metrics.roc_auc_score(y, odds))


def prediction_f1(
    test: Any, trains: Sequence[Any], kinds: Mapping[str, str], target: str, seed: int
) -> list[float]:
    """Macro F1 on `test` of one classifier of `target` for each table to train on."""
    metrics = needed("sklearn.metrics")
    names = [name for name in kinds if name != target]
    x_test, *x_trains = tree_features([test, *trains], kinds, names)
    y_test, *y_trains = (as_text(frame[target]).to_numpy() for frame in (test, *trains))
    scores = []
    for x, y in zip(x_trains, y_trains, strict=True):
        if len(np.unique(y)) == 1:
            guessed = np.repeat(y[0], len(x_test))
        else:
            guessed = _classifier(seed).fit(x, y).predict(x_test)
        scores.append(float(metrics.f1_score(y_test, guessed, average="macro", zero_division=0.0)))
    return scores


def as_text(series: Any) -> Any:
    """Categories as text, `?` for gaps; equal numbers are alike, whole ones of any dtype too."""
    pandas = needed("pandas")
    values = zip(series.astype(object), series.isna(), strict=True)
    text = ["?" if gap else _told(value) for value, gap in values]
    return pandas.Series(text, index=series.index, dtype=object)


def _told(value: Any) -> str:
    is_whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value) if is_whole else value)


def is_number(kind: str) -> bool:
    """Whether a kind of column holds numbers."""
    return kind in ("integer", "continuous")


def _shape(real: Any, synthetic: Any, kind: str) -> float:
    if not is_number(kind):
        a, b = (as_text(series).value_counts(normalize=True) for series in (real, synthetic))
        return 1.0 - 0.5 * float(a.subtract(b, fill_value=0.0).abs().sum())
    left, right = (np.sort(series.dropna().to_numpy(dtype=np.float64)) for series in (real, synthetic))
    if not len(left) or not len(right):
        return float(len(left) == len(right))
    points = np.concatenate([left, right])
    below = [np.searchsorted(values, points, side="right") / len(values) for values in (left, right)]
    return 1.0 - float(np.abs(below[0] - below[1]).max())


def _bins(real: Any, synthetic: Any, kind: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Both columns in few bins: tenths of numbers, frequent categories; gaps are a bin of their own."""
    if is_number(kind):
        values = real.dropna().to_numpy(dtype=np.float64)
        inner = np.linspace(0, 1, _BINS + 1)[1:-1]
        edges = np.unique(np.quantile(values, inner)) if len(values) else np.zeros(0)
        out = []
        for series in (real, synthetic):
            numbers = series.to_numpy(dtype=np.float64, na_value=np.nan)
            codes = np.searchsorted(edges, numbers, side="right")
            out.append(np.where(np.isnan(numbers), _BINS, codes).astype(np.int64))
        return out[0], out[1]
    plain = [as_text(series) for series in (real, synthetic)]
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


def tree_features(frames: list[Any], kinds: Mapping[str, str], names: list[str]) -> list[NDArray[np.float64]]:
    """Columns as numbers for trees: categories by their place among all values, gaps as NaN."""
    pandas = needed("pandas")
    parts: list[list[NDArray[np.float64]]] = [[] for _ in frames]
    for name in names:
        if is_number(kinds[name]):
            values = [frame[name].to_numpy(dtype=np.float64, na_value=np.nan) for frame in frames]
        else:
            whole = pandas.concat([as_text(frame[name]).where(~frame[name].isna()) for frame in frames])
            codes = pandas.factorize(whole)[0].astype(np.float64)
            codes[codes < 0] = np.nan
            ends = np.cumsum([len(frame) for frame in frames])[:-1]
            values = np.split(codes, ends)
        for part, own in zip(parts, values, strict=True):
            part.append(own)
    return [np.stack(part, axis=1) for part in parts]


def _classifier(seed: int) -> Any:
    trees = needed("sklearn.ensemble")
    return trees.HistGradientBoostingClassifier(max_iter=60, random_state=seed, early_stopping=False)
