"""The scikit-learn estimator."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from catnf.errors import InputError
from catnf.tabular.coding import TableCode, check_columns
from catnf.tabular.conditions import conditions
from catnf.tabular.drawing import draw_given, draw_rows, rows_at_once
from catnf.tabular.filling import fill_gaps
from catnf.tabular.fitting import fit_rows, sizes_for
from catnf.tabular.frames import from_pandas, needed, polars_dtypes, to_pandas
from catnf.tabular.schema import Column, learn_column
from catnf.tabular.stored import FittedTable, load_table, save_table

_base = needed("sklearn.base")
_checks = needed("sklearn.utils.validation")

_HELD_OUT = 0.1
_MOST_HELD_OUT = 5000
_FEW_ROWS = 40  # of so few none is held out


class CategoricalFlow(_base.DensityMixin, _base.BaseEstimator):  # type: ignore[name-defined,misc]
    """A distribution over the rows of a table with categorical, integer and continuous columns.

    `fit` takes a pandas or polars frame or an array. Columns of text, booleans and few different numbers are
    categorical; others are whole or continuous numbers. Likelihoods are lower bounds in nats that tighten
    with `draws`; with continuous columns they are densities in the units of the data.

    Args:
        missing: `"category"` treats a gap as a value, which samples have too; `"impute"` as a cell that is
            not known: likelihoods are of the cells that are, and samples have no gaps.
        unseen: what `score_samples` does with values that were never seen: `"rare"` takes them for the rarest
            category of their column and once per fitted row less likely, `"error"` refuses them.
        rare: categories with fewer rows than this share one category.
        categorical: names of numeric columns that are categorical all the same.
        max_steps: training steps; `None` for what suits the table.
        max_seconds: stop training after so many seconds.
        patience: most looks at held-out rows without improvement before training stops; early in training
            it stops after as many as it took to be best. 0 for never.
        draws: of the importance-weighted bound that scores.
        random_state: a seed, for the same model and the same draws again; `None` for others every time.
        verbose: print progress on standard error.

    Attributes:
        columns_: names and kinds of the columns.
        n_steps_: training steps made.
        held_out_log_likelihood_: mean over the held-out rows, in nats, of the bound with two draws; `None`
            where there are too few rows to hold any out, or time was up before a look at them.
        fit_seconds_: of training.
    """

    def __init__(
        self,
        *,
        missing: Literal["category", "impute"] = "category",
        unseen: Literal["rare", "error"] = "rare",
        rare: int = 1,
        categorical: Sequence[str] = (),
        max_steps: int | None = None,
        max_seconds: float | None = None,
        patience: int = 10,
        draws: int = 16,
        random_state: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.missing = missing
        self.unseen = unseen
        self.rare = rare
        self.categorical = categorical
        self.max_steps = max_steps
        self.max_seconds = max_seconds
        self.patience = patience
        self.draws = draws
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any = None, progress: Callable[[int, int, float | None], None] | None = None
    ) -> CategoricalFlow:
        """Learn the distribution of the rows of `X`; `y` is ignored.

        A tenth of the rows, at most 5,000, is held out to stop training by; of fewer than 40 rows none is.
        A column that holds a single value, or nothing, is kept as it is and not modelled.
        """
        self._check_parameters()
        frame, library = to_pandas(X)
        if len(frame) < 2:
            raise InputError("The table has n_samples=1, a single row; give at least 2 to learn from.")
        strange = [name for name in self.categorical if name not in frame.columns]
        if strange:
            raise InputError(f"categorical names the column {strange[0]!r}, which the table lacks.")
        columns = tuple(
            learn_column(name, frame[name], name in self.categorical, self.rare, self.missing == "impute")
            for name in frame.columns
        )
        self._tell_constants(columns)
        code = TableCode(columns, len(frame), self.missing == "impute")
        seed = self._seed()
        order = torch.randperm(len(frame), generator=torch.Generator().manual_seed(seed)).numpy()
        count = 0 if len(frame) < _FEW_ROWS else min(_MOST_HELD_OUT, round(_HELD_OUT * len(frame)))
        train = code.encode(frame.iloc[order[count:]])
        held = code.encode(frame.iloc[order[:count]]) if count else train
        sizes = sizes_for(code, len(frame))
        if self.max_steps is not None:
            sizes = replace(sizes, steps=self.max_steps)
        told = progress or (_say if self.verbose else _quiet)
        if code.sizes or code.numeric:
            outcome = fit_rows(code, train, held, sizes, seed, self.patience, self.max_seconds, told)
            learned = (outcome.steps, outcome.validation_nats, outcome.seconds)
            fitted = FittedTable(code, sizes, outcome.model, library, polars_dtypes(X), *learned)
        else:
            fitted = FittedTable(code, sizes, None, library, polars_dtypes(X), 0, 0.0, 0.0)
        self._take(fitted)
        if not hasattr(X, "columns") and hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """The log-likelihood of every row of `X`, in nats: `[rows]`."""
        scores: NDArray[np.float64] = self.score_parts(X).sum(axis=1)
        return scores

    def score_parts(self, X: Any) -> NDArray[np.float64]:
        """Log-likelihoods by kind of column, `[rows, 2]`: of categories, and of numbers given them.

        Their sum is that of the row. Whole numbers count in nats of probability, continuous ones of density.
        """
        fitted = self._fitted()
        frame = self._frame(X)
        rows = fitted.code.encode(frame)
        if self.unseen == "error" and rows.unseen.any():
            row, column = np.argwhere(rows.unseen)[0]
            name = fitted.code.columns[column].name
            raise InputError(
                f"Column {name!r} holds {frame[name].iloc[row]!r} in row {row}, which was never seen in "
                'fitting; leave the row out or use unseen="rare".'
            )
        out = np.zeros((len(rows), 2))
        out[:, 0] = rows.log_extra.numpy()
        if fitted.model is None:
            return out
        generator = torch.Generator().manual_seed(self._seed())
        # A model's draws are spread over a batch; they count as rows.
        size = max(1, rows_at_once(fitted.code) // self.draws)
        for start in range(0, len(rows), size):
            x, ctx = rows.take(slice(start, start + size))
            parts = fitted.model.row_likelihood(x, ctx, self.draws, generator)
            out[start : start + size] += torch.stack([parts.categorical, parts.numeric], 1).double().numpy()
        return out

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log-likelihood of the rows of `X`, in nats."""
        return float(self.score_samples(X).mean())

    def bits_per_column(self, X: Any) -> float:
        """The mean of minus the log-likelihood in bits, divided by the number of columns."""
        return -self.score(X) / math.log(2) / len(self._fitted().code.columns)

    def sample(
        self, n_samples: int = 1, given: Mapping[str, Any] | None = None, random_state: int | None = None
    ) -> Any:
        """Draw rows, as the kind of table that was fitted.

        Args:
            n_samples: how many.
            given: values of some columns, or ranges `(low, high)` of numeric ones; rows are drawn given them
                by weighted resampling, with a warning where few candidates fit.
            random_state: a seed, by default the estimator's.
        """
        fitted = self._fitted()
        if n_samples < 1:
            raise InputError(f"The number of samples is {n_samples}; give at least 1.")
        wanted = conditions(fitted.code, given or {})
        seed = self._seed() if random_state is None else random_state
        generator, random = torch.Generator().manual_seed(seed), np.random.default_rng(seed)
        if fitted.model is None:
            x, numbers = torch.zeros(n_samples, 0, dtype=torch.int64), torch.zeros(n_samples, 0)
        elif wanted:
            x, numbers = draw_given(fitted.model, fitted.code, n_samples, wanted, generator)
        else:
            x, numbers = draw_rows(fitted.model, fitted.code, n_samples, generator)
        frame = fitted.code.decode(x, numbers, random)
        for condition in wanted:
            if condition.pooled:  # of the values that share a category the one that was given
                frame[condition.column.name] = condition.cells(n_samples)
        return from_pandas(frame, fitted.library, fitted.dtypes)

    def impute(self, X: Any, random_state: int | None = None) -> Any:
        """`X` with its gaps filled by draws given the other cells of a row; other cells stay as they are."""
        fitted = self._fitted()
        frame = self._frame(X)
        seed = self._seed() if random_state is None else random_state
        generator, random = torch.Generator().manual_seed(seed), np.random.default_rng(seed)
        filled = fill_gaps(fitted.model, fitted.code, frame, min(4, self.draws), generator, random)
        return from_pandas(filled[list(frame.columns)], fitted.library, fitted.dtypes)

    def anomalies(self, X: Any, top: int = 20) -> Any:
        """The `top` least likely rows of `X`, least likely first, with their `log_likelihood` beside them."""
        if top < 1:
            raise InputError(f"top is {top}; give at least 1.")
        frame, library = to_pandas(X, self._names())
        scores = self.score_samples(X)
        order = np.argsort(scores, kind="stable")[:top]
        if "log_likelihood" in frame.columns:
            raise InputError("The table has a column log_likelihood of its own; give it another name.")
        found = frame.iloc[order].assign(log_likelihood=scores[order])
        return from_pandas(found, "pandas" if library == "numpy" else library, polars_dtypes(X))

    def save(self, path: str | Path) -> Path:
        """Write the fitted model to a safetensors file; nothing in it is pickled."""
        return save_table(Path(path), self._fitted(), self.get_params())

    @classmethod
    def load(cls, path: str | Path) -> CategoricalFlow:
        """Read what `save` wrote."""
        fitted, parameters = load_table(Path(path))
        flow = cls(**parameters)
        flow._take(fitted)
        return flow

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def _take(self, fitted: FittedTable) -> None:
        self.table_ = fitted
        self.columns_ = {column.name: column.kind for column in fitted.code.columns}
        self.n_features_in_ = len(self.columns_)
        self.feature_names_in_ = np.array(list(self.columns_), dtype=object)
        self.n_steps_ = fitted.steps
        self.held_out_log_likelihood_ = fitted.held_out
        self.fit_seconds_ = fitted.seconds

    def _frame(self, X: Any) -> Any:
        names = self._names()
        shape: tuple[int, ...] = getattr(X, "shape", ())
        if not hasattr(X, "columns") and len(shape) == 2 and shape[1] != len(names):
            raise InputError(
                f"X has {shape[1]} features, but CategoricalFlow is expecting {len(names)} features as input."
            )
        frame, _ = to_pandas(X, names)
        check_columns(frame, names)
        return frame

    def _names(self) -> list[str]:
        return [column.name for column in self._fitted().code.columns]

    def _fitted(self) -> FittedTable:
        _checks.check_is_fitted(self, "table_")
        table: FittedTable = self.table_
        return table

    def _seed(self) -> int:
        if self.random_state is None:
            return int(torch.Generator().seed() % 2**32)
        return int(_checks.check_random_state(self.random_state).randint(2**31 - 1))

    def _check_parameters(self) -> None:
        for name, allowed in (("missing", ("category", "impute")), ("unseen", ("rare", "error"))):
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} is {getattr(self, name)!r}; choose {' or '.join(allowed)}.")
        for name in ("rare", "draws", "max_steps"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}; give at least 1.")
        if self.patience < 0:
            raise InputError(f"patience is {self.patience}; give 0, for none, or more.")
        if self.max_seconds is not None and not 0 < self.max_seconds < math.inf:
            raise InputError(f"max_seconds is {self.max_seconds}; give a number above 0.")

    def _tell_constants(self, columns: Sequence[Column]) -> None:
        constant = [column.name for column in columns if column.kind == "constant"]
        if constant:
            names = ", ".join(map(repr, constant[:5])) + (" and more" if len(constant) > 5 else "")
            warnings.warn(f"Kept as constant and not modelled: {names}.", stacklevel=3)


def _quiet(step: int, steps: int, bits: float | None) -> None:
    pass


def _say(step: int, steps: int, bits: float | None) -> None:
    held = "" if bits is None else f", {bits:.4f} bits per column on held-out rows"
    print(f"step {step} of {steps}{held}", file=sys.stderr)
