"""Training of tables: where it stops early, all rows are learned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

pd = pytest.importorskip("pandas", reason="needs the extra table")
pytest.importorskip("sklearn", reason="needs the extra table")

from catnf.tabular import CategoricalFlow  # noqa: E402
from catnf.tabular.fitting import fit_rows, sizes_for  # noqa: E402


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


def test_weights_are_kept_where_training_goes_on(noise: Any) -> None:
    code = CategoricalFlow(random_state=0, max_steps=1).fit(noise).table_.code
    rows = [code.encode(part) for part in (noise.head(60), noise.tail(20))]
    sizes = sizes_for(code, 80)
    outcome = fit_rows(code, *rows, sizes, 0, 10, 0.4, lambda *state: None)
    assert outcome.steps < sizes.steps
    assert torch.allclose(outcome.model.categorical.flow.log_prior.exp(), code.frequencies(rows[0]))
    both = rows[0].joined(rows[1])
    assert torch.equal(both.x, code.encode(noise).x)
    assert len(both) == 80
