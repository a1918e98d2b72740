"""Columns as a few codes, for tools that know categories alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

_BINS = 10


class BinnedColumn:
    """A column as codes `0, 1, …` and back, with the probability of a cell given its code.

    A number's code is its tenth by the quantiles of the fitted rows; equal quantiles are one. A category that
    was never seen counts as the rarest, once per fitted row less likely, as in `CategoricalFlow`.

    Args:
        series: the fitted cells.
        is_number: whether they are whole numbers.
    """

    def __init__(self, series: Any, is_number: bool) -> None:
        self.is_number, self.rows = is_number, len(series)
        if not is_number:
            counts = series.value_counts()
            self.labels = pd.Index(counts.index.astype(object))
            self.size = len(self.labels)
            return
        values = series.to_numpy(dtype=np.int64)
        # Quantiles of neighbours' upper one, so that every bin has rows of its own.
        inner = np.quantile(values, np.linspace(0, 1, _BINS + 1)[1:-1], method="higher").astype(np.int64)
        self.edges = np.unique(inner[inner > values.min()])
        self.size = len(self.edges) + 1
        self.low, self.high = int(values.min()), int(values.max())
        codes = np.searchsorted(self.edges, values, side="right")
        self.members = [values[codes == code] for code in range(self.size)]

    def encode(self, series: Any) -> NDArray[np.int64]:
        """Codes of cells, `[rows]`."""
        if self.is_number:
            codes = np.searchsorted(self.edges, series.to_numpy(dtype=np.int64), side="right")
            return np.asarray(codes, dtype=np.int64)
        found = self.labels.get_indexer(pd.Index(series.astype(object)))
        return np.where(found < 0, self.size - 1, found).astype(np.int64)

    def log2_within(self, series: Any) -> NDArray[np.float64]:
        """The logarithm to base 2 of the probability of cells given their codes, `[rows]`."""
        if not self.is_number:
            found = self.labels.get_indexer(pd.Index(series.astype(object)))
            return np.where(found < 0, -np.log2(self.rows + 1), 0.0)
        values = series.to_numpy(dtype=np.int64)
        codes = np.searchsorted(self.edges, values, side="right")
        bounds = np.concatenate([[self.low], self.edges, [self.high + 1]])
        out = np.zeros(len(values))
        for code, members in enumerate(self.members):
            own = codes == code
            seen, counts = np.unique(members, return_counts=True)
            at = np.minimum(np.searchsorted(seen, values[own]), len(seen) - 1)
            times = np.where(seen[at] == values[own], counts[at], 0)
            out[own] = np.log2((times + 1) / (len(members) + bounds[code + 1] - bounds[code]))
        return out

    def decode(self, codes: NDArray[np.int64], random: np.random.Generator) -> Any:
        """Cells of codes; numbers are drawn among the fitted ones of the same code."""
        if not self.is_number:
            return self.labels.to_numpy()[codes]
        out = np.zeros(len(codes), dtype=np.int64)
        for code, members in enumerate(self.members):
            own = codes == code
            out[own] = random.choice(members, size=int(own.sum()))
        return out
