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
from catnf.tabular.comparison import (
    as_text,
    detection_auc,
    is_number,
    pair_scores,
    prediction_f1,
    shape_scores,
    tree_features,
)
from catnf.tabular.estimator import CategoricalFlow
from catnf.tabular.frames import to_pandas

_MOST_ROWS = 10_000  # that are compared; more change little and take long
_MOST_NEIGHBOURS = 2_000  # rows whose nearest record is looked for
_MOST_PAIRS = 500


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

    Where a model takes gaps for cells that are not known, its samples have none, and those of the real rows
    are filled before they are compared; their likelihood is of the cells that are known.

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
    independent = _independent(real, flow.columns_, flow.missing == "impute")
    if flow.missing == "impute":
        real = to_pandas(flow.impute(real, random_state=seed), list(flow.columns_))[0]
    synthetic, _ = to_pandas(flow.sample(len(real), random_state=seed), list(flow.columns_))
    target = _target(flow, target)
    modelled = [name for name, kind in flow.columns_.items() if kind != "constant"]
    pairs = list(combinations(modelled, 2))
    if len(pairs) > _MOST_PAIRS:
        pairs = [pairs[index] for index in np.sort(random.choice(len(pairs), _MOST_PAIRS, replace=False))]
    distances, copies = _nearest(real, synthetic, flow.columns_, random)
    report = Report(
        rows={"real": len(real), "synthetic": len(synthetic)},
        shapes=shape_scores(real, synthetic, flow.columns_),
        pairs=pair_scores(real, synthetic, flow.columns_, pairs),
        detection=detection_auc(real, synthetic, flow.columns_, seed),
        target=target,
        prediction=_prediction(real, synthetic, flow.columns_, target, seed) if target else {},
        distances=distances,
        copies=copies,
        bits=bits,
        bits_independent=independent,
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


def _prediction(
    real: Any, synthetic: Any, kinds: Mapping[str, str], target: str, seed: int
) -> dict[str, float]:
    """Macro F1 on a quarter of the real rows, trained on the others and on as many synthetic ones."""
    order = np.random.default_rng(seed).permutation(len(real))
    test, train = real.iloc[order[: len(real) // 4]], real.iloc[order[len(real) // 4 :]]
    scores = prediction_f1(test, [train, synthetic.iloc[: len(train)]], kinds, target, seed)
    return dict(zip(("real", "synthetic"), scores, strict=True))


def _nearest(
    real: Any, synthetic: Any, kinds: Mapping[str, str], random: np.random.Generator
) -> tuple[dict[str, float], dict[str, float]]:
    names = list(kinds)
    x_real, x_fake = tree_features([real, synthetic], kinds, names)
    numeric = np.array([is_number(kinds[name]) for name in names])
    low, high = (np.nanquantile(x_real, end, axis=0) for end in (0.0, 1.0))
    span = np.where(high > low, high - low, 1.0)
    some = random.choice(len(x_real), min(len(x_real), _MOST_NEIGHBOURS), replace=False)
    fake = _distances(x_fake[:_MOST_NEIGHBOURS], x_real, numeric, span)
    own = _distances(x_real[some], x_real, numeric, span, some)
    distances = {"synthetic_to_real": float(np.median(fake)), "real_to_real": float(np.median(own))}
    return distances, {"synthetic": float((fake == 0).mean()), "real": float((own == 0).mean())}


def _distances(
    rows: NDArray[np.float64],
    records: NDArray[np.float64],
    numeric: NDArray[np.bool_],
    span: NDArray[np.float64],
    same: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """The distance of every row to its nearest record, itself left out where `same` names it: `[rows]`."""
    out = np.empty(len(rows))
    gaps = np.isnan(records)
    for index, row in enumerate(rows):
        with np.errstate(invalid="ignore"):
            apart = np.where(numeric, np.abs(records - row) / span, records != row)
        apart = np.where(gaps | np.isnan(row), gaps != np.isnan(row), np.minimum(apart, 1.0))
        total = apart.mean(axis=1)
        if same is not None:
            total[same[index]] = math.inf
        out[index] = total.min()
    return out


def _independent(real: Any, kinds: Mapping[str, str], imputes: bool) -> float | None:
    """Bits of a column if all were independent, of the known cells where gaps are no values."""
    if any(is_number(kind) for kind in kinds.values()):
        return None
    total = 0.0
    for name in kinds:
        cells = as_text(real[name].dropna() if imputes else real[name])
        shares = cells.value_counts(normalize=True).to_numpy()
        total -= float((shares * np.log2(shares)).sum()) * len(cells) / len(real)
    return total / len(kinds)
