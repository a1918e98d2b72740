"""Training of tables: where it stops early, all rows are learned."""

from __future__ import annotations

import itertools
import time
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

pd = pytest.importorskip("pandas", reason="needs the extra table")
pytest.importorskip("sklearn", reason="needs the extra table")

from catnf.tabular import CategoricalFlow  # noqa: E402
from catnf.tabular.fitting import exhausted, fit_rows, sizes_for  # noqa: E402
from catnf.training.selection import Selection  # noqa: E402


@pytest.fixture(scope="module")
def noise() -> Any:
    """Columns that have nothing to do with each other: whatever is learned of one from others is wrong."""
    random = np.random.default_rng(0)
    return pd.DataFrame({f"column{index}": random.choice(list("abcd"), 80) for index in range(5)})


def test_all_rows_are_learned_where_training_stops_early(noise: Any) -> None:
    told: list[tuple[int, int, float | None]] = []
    flow = CategoricalFlow(random_state=0, patience=1, max_steps=400)
    flow.fit(noise, progress=lambda *state: told.append(state))
    assert 100 < flow.n_steps_ < 400
    assert told[-1][:2] == (flow.n_steps_, flow.n_steps_), "progress goes on to the end"
    assert [state[0] for state in told] == sorted(state[0] for state in told)
    code = flow.table_.code
    everything = code.frequencies(code.encode(noise))
    model = flow.table_.model
    assert model is not None
    assert torch.allclose(model.categorical.flow.log_prior.exp(), everything)


def test_weights_are_kept_where_training_goes_on(noise: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    code = CategoricalFlow(random_state=0, max_steps=1).fit(noise).table_.code
    rows = [code.encode(part) for part in (noise.head(60), noise.tail(20))]
    sizes = sizes_for(code, 80)
    # By a clock of 10 ms a step, time is up after two looks; after four, nothing might have got better.
    ticks = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: 0.01 * next(ticks))
    outcome = fit_rows(code, *rows, sizes, 0, 10, 1.2, lambda *state: None)
    assert 100 < outcome.steps < 150
    assert torch.allclose(outcome.model.categorical.flow.log_prior.exp(), code.frequencies(rows[0]))
    both = rows[0].joined(rows[1])
    assert torch.equal(both.x, code.encode(noise).x)
    assert len(both) == 80


@pytest.mark.parametrize(
    ("best", "waited", "patience", "expected"),
    [
        (50, 2, 10, False),  # never after fewer than three looks
        (50, 3, 10, True),
        (200, 3, 10, False),
        (200, 4, 10, True),  # best at the fourth look, and nothing better for four
        (1000, 9, 10, False),
        (1000, 10, 10, True),
        (1000, 1, 1, True),
        (50, 1, 1, True),
        (50, 100, 0, False),
    ],
)
def test_patience_is_as_long_as_it_took_to_be_best(
    best: int, waited: int, patience: int, expected: bool
) -> None:
    looks = SimpleNamespace(
        bits=1.0, best_step=best, waited=waited, config=SimpleNamespace(validate_every=50)
    )
    assert exhausted(cast("Selection", looks), patience) == expected


def test_without_a_look_nothing_is_exhausted() -> None:
    looks = SimpleNamespace(bits=None, best_step=0, waited=0, config=SimpleNamespace(validate_every=0))
    assert not exhausted(cast("Selection", looks), 10)
