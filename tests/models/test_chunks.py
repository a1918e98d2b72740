"""Many draws are scored in chunks, which bound memory and do not change the result."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from catnf.context import SetContext
from catnf.experiments import load_experiment
from catnf.models import Model
from catnf.models.model import Bound

Seeded = Callable[[int], torch.Generator]
SIZES = ("task.size=4", "model.hidden=8", "model.heads=2", "model.blocks=1", "model.layers=2")
flows = pytest.mark.parametrize("kind", ["mixture", "linear", "variational", "latent"])


@pytest.fixture
def model(kind: str, perturb: Callable[..., Model]) -> Model:
    experiment = load_experiment(f"sets/shuffling/{kind}", SIZES)
    return perturb(experiment.make_model(experiment.make_task(), seed=0), 0.1)


def categories(batch: int) -> Tensor:
    return torch.randint(4, (batch, 4), generator=torch.Generator().manual_seed(0))


@pytest.fixture
def sizes(model: Model, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The batches that `model.bound` has seen."""
    seen: list[int] = []
    bound = model.bound

    def record(x: Tensor, ctx: SetContext, generator: torch.Generator | None = None) -> Bound:
        assert x.shape == (ctx.batch, ctx.elements)
        seen.append(ctx.batch)
        return bound(x, ctx, generator)

    monkeypatch.setattr(model, "bound", record)
    return seen


@flows
def test_one_example_in_chunks_sees_the_same_draws(model: Model, seeded: Seeded, sizes: list[int]) -> None:
    x = categories(1)
    ctx = SetContext.of(x)
    whole = model.log_prob(x, ctx, samples=10, generator=seeded(1))
    assert sizes == [10]
    assert not torch.allclose(whole, model.log_prob(x, ctx, samples=10, generator=seeded(2)), atol=1e-3)
    for chunk, expected in ((1, [1] * 10), (3, [3, 3, 3, 1]), (10, [10])):
        sizes.clear()
        parts = model.log_prob(x, ctx, samples=10, generator=seeded(1), chunk=chunk)
        torch.testing.assert_close(parts, whole, rtol=1e-5, atol=1e-4)
        assert sizes == expected


@flows
def test_chunks_are_averaged_with_equal_weight_of_every_draw(
    model: Model, seeded: Seeded, sizes: list[int]
) -> None:
    x = categories(4)
    ctx = SetContext.of(x)
    # Two draws of four examples fill a chunk of nine, so that five draws make chunks of 2, 2 and 1.
    found = model.log_prob(x, ctx, samples=5, generator=seeded(1), chunk=9)
    assert sizes == [8, 8, 4]
    generator = seeded(1)
    values = []
    with torch.no_grad():
        for times in (2, 2, 1):
            bound = model.bound(x.repeat_interleave(times, 0), ctx.repeat(times), generator)
            values.append(bound.value.view(4, times))
    expected = torch.cat(values, dim=1).double().exp().mean(1).log()
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    sizes.clear()
    assert torch.isfinite(model.log_prob(x, ctx, samples=2, chunk=1)).all()
    assert sizes == [4, 4], "examples are not taken apart, draws are"
