"""The tools that `compare_tables.py` compares, each at its defaults and behind the same four methods."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from table_bins import BinnedColumn
from table_data import Table


class Tool(Protocol):
    """Something that is fitted to rows and draws others like them."""

    def fit(self, table: Table, seed: int) -> None:
        """Learn the rows to train on."""

    def sample(self, count: int, seed: int) -> pd.DataFrame:
        """Draw rows."""

    def bits(self, rows: pd.DataFrame) -> float | None:
        """Minus the mean log-likelihood of rows in bits a row; `None` for tools that have no likelihood."""

    def about(self) -> dict[str, object]:
        """What a reader should know about the fit."""


class Catnf:
    """`catnf.tabular.CategoricalFlow`."""

    def fit(self, table: Table, seed: int) -> None:
        from catnf.tabular import CategoricalFlow

        self.flow = CategoricalFlow(random_state=seed).fit(table.train)

    def sample(self, count: int, seed: int) -> pd.DataFrame:
        drawn: pd.DataFrame = self.flow.sample(count, random_state=seed)
        return drawn

    def bits(self, rows: pd.DataFrame) -> float | None:
        return -self.flow.score(rows) / math.log(2)

    def about(self) -> dict[str, object]:
        return {"steps": self.flow.n_steps_, "draws_of_bound": self.flow.draws}


class Synthesizer:
    """CTGAN or TVAE of the package `ctgan`.

    Args:
        name: of the class.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def fit(self, table: Table, seed: int) -> None:
        import ctgan

        self.model = getattr(ctgan, self.name)(enable_gpu=False)
        self.model.set_random_state(seed)
        self.model.fit(table.train, discrete_columns=table.categorical)

    def sample(self, count: int, seed: int) -> pd.DataFrame:
        self.model.set_random_state(seed)
        drawn: pd.DataFrame = self.model.sample(count)
        return drawn

    def bits(self, rows: pd.DataFrame) -> float | None:
        return None

    def about(self) -> dict[str, object]:
        return {"ctgan": _version("ctgan")}


class BayesianNetwork:
    """A network of `pgmpy`, its structure found by hill climbing, over columns that are categories or binned.

    Tables of probabilities have pgmpy's default prior (BDeu, 5 rows): without it unseen combinations would be
    impossible. Numbers are in tenths by their quantiles; within a tenth a number has its own frequency among
    the fitted rows, with one more row for every whole number of the tenth.
    """

    def fit(self, table: Table, seed: int) -> None:
        from pgmpy.causal_discovery import HillClimbSearch
        from pgmpy.models import DiscreteBayesianNetwork
        from pgmpy.parameter_estimator import DiscreteBayesianEstimator

        self.names = list(table.train.columns)
        self.columns = {name: BinnedColumn(table.train[name], name in table.integers) for name in self.names}
        codes = self._codes(table.train).astype(str)
        search = HillClimbSearch(return_type="dag", show_progress=False).fit(codes)
        self.network = DiscreteBayesianNetwork(search.causal_graph_.edges())
        self.network.add_nodes_from(self.names)
        self.network.fit(codes, estimator=DiscreteBayesianEstimator())

    def sample(self, count: int, seed: int) -> pd.DataFrame:
        drawn = self.network.simulate(count, seed=seed, show_progress=False)
        random = np.random.default_rng(seed)
        return pd.DataFrame(
            {
                name: self.columns[name].decode(drawn[name].astype(int).to_numpy(), random)
                for name in self.names
            }
        )

    def bits(self, rows: pd.DataFrame) -> float | None:
        codes = self._codes(rows)
        total = np.zeros(len(rows))
        for name in self.names:
            cpd = self.network.get_cpds(name)
            own = [cpd.variables[0], *cpd.variables[1:]]
            places = [_places(cpd.state_names[other], codes[other].to_numpy()) for other in own]
            total += np.log2(cpd.values[tuple(places)]) + self.columns[name].log2_within(rows[name])
        return -float(total.mean())

    def about(self) -> dict[str, object]:
        return {"pgmpy": _version("pgmpy"), "edges": len(self.network.edges())}

    def _codes(self, rows: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({name: self.columns[name].encode(rows[name]) for name in self.names})


class Forest:
    """An adversarial random forest, of the package `arfpy`; numbers it draws are rounded to whole ones."""

    def fit(self, table: Table, seed: int) -> None:
        from arfpy import arf

        if not hasattr(np, "in1d"):  # arfpy 0.1.1 calls what numpy 2.4 dropped
            np.in1d = np.isin
        np.random.seed(seed)
        self.table = table
        self.forest = arf.arf(x=table.train.reset_index(drop=True), verbose=False, random_state=seed)
        self.forest.forde()

    def sample(self, count: int, seed: int) -> pd.DataFrame:
        np.random.seed(seed)
        drawn = self.forest.forge(n=count)
        for name in self.table.integers:
            drawn[name] = drawn[name].astype(float).round()
        return drawn

    def bits(self, rows: pd.DataFrame) -> float | None:
        return None

    def about(self) -> dict[str, object]:
        return {"arfpy": _version("arfpy"), "rounds": len(self.forest.acc)}


class Independent:
    """Columns drawn each from its own frequencies."""

    def fit(self, table: Table, seed: int) -> None:
        self.names = list(table.train.columns)
        self.columns = {name: BinnedColumn(table.train[name], name in table.integers) for name in self.names}
        self.shares = {}
        for name, column in self.columns.items():
            counts = np.bincount(column.encode(table.train[name]), minlength=column.size)
            self.shares[name] = counts / counts.sum()

    def sample(self, count: int, seed: int) -> pd.DataFrame:
        random = np.random.default_rng(seed)
        return pd.DataFrame(
            {
                name: self.columns[name].decode(
                    random.choice(len(self.shares[name]), count, p=self.shares[name]), random
                )
                for name in self.names
            }
        )

    def bits(self, rows: pd.DataFrame) -> float | None:
        total = np.zeros(len(rows))
        for name, column in self.columns.items():
            total += np.log2(self.shares[name][column.encode(rows[name])]) + column.log2_within(rows[name])
        return -float(total.mean())

    def about(self) -> dict[str, object]:
        return {}


TOOLS: dict[str, Callable[[], Tool]] = {
    "catnf": Catnf,
    "ctgan": lambda: Synthesizer("CTGAN"),
    "tvae": lambda: Synthesizer("TVAE"),
    "bayesian-network": BayesianNetwork,
    "forest": Forest,
    "independent": Independent,
}


def _places(states: Any, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.asarray(pd.Index([int(state) for state in states]).get_indexer(codes), dtype=np.int64)


def _version(package: str) -> str:
    from importlib.metadata import version

    return version(package)
