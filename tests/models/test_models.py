"""The contract of models: input checks, shapes, invariances."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from catnf.context import SetContext
from catnf.errors import InputError
from catnf.models import CategoricalFlow, Model
from catnf.models.baselines import DiscreteFlow
from catnf.tasks.sets.models import SetModelConfig, build_set_model

KINDS = ["mixture", "linear", "variational", "latent", "dequantization", "discrete"]
CATEGORIES, ELEMENTS = 4, 5
Seeded = Callable[[int], torch.Generator]
every = pytest.mark.parametrize("kind", KINDS)
flows = pytest.mark.parametrize("kind", KINDS[:-1])


def build(kind: str) -> Model:
    config = SetModelConfig(
        kind=kind,  # type: ignore[arg-type]
        channels=2,
        layers=2,
        mixtures=3,
        hidden=8,
        blocks=1,
        heads=2,
        encoding_layers=2,
        features=4,
    )
    return build_set_model(config, torch.full((CATEGORIES,), 1 / CATEGORIES), ELEMENTS)


@pytest.fixture
def model(kind: str, perturb: Callable[..., Model]) -> Model:
    return perturb(build(kind), 0.1)


def categories(batch: int = 3, elements: int = ELEMENTS, seed: int = 0) -> Tensor:
    return torch.randint(CATEGORIES, (batch, elements), generator=torch.Generator().manual_seed(seed))


@every
def test_shapes_and_seeds(model: Model, seeded: Seeded) -> None:
    x = categories()
    ctx = SetContext.of(x)
    log_prob = model.log_prob(x, ctx, samples=3, generator=seeded(1))
    assert log_prob.shape == (3,)
    assert torch.isfinite(log_prob).all()
    assert (log_prob < 0).all()
    assert not log_prob.requires_grad
    assert torch.equal(log_prob, model.log_prob(x, ctx, samples=3, generator=seeded(1)))
    drawn = model.sample(ctx, seeded(2))
    assert drawn.shape == x.shape
    assert drawn.dtype == torch.int64
    assert ((drawn >= 0) & (drawn < CATEGORIES)).all()
    assert torch.equal(drawn, model.sample(ctx, seeded(2)))
    assert model.reconstruct(x, ctx, seeded(3)).shape == x.shape


@every
def test_loss_is_the_bound_per_variable(model: Model, seeded: Seeded) -> None:
    x = categories()
    ctx = SetContext(3, ELEMENTS, torch.tensor([[True] * 5, [True] * 4 + [False], [True] * 2 + [False] * 3]))
    loss, nats = model.loss(x, ctx, seeded(1), reconstruction_weight=3.0)
    bound = model.bound(x, ctx, seeded(1))
    counts = torch.tensor([5.0, 4.0, 2.0])
    torch.testing.assert_close(nats, -(bound.value / counts).mean().detach())
    torch.testing.assert_close(loss - nats, -2.0 * (bound.log_posterior / counts).mean())
    assert loss.requires_grad
    assert not nats.requires_grad


@every
def test_initialization_standardises_and_keeps_everything_finite(kind: str, seeded: Seeded) -> None:
    model = build(kind)
    x = categories(64)
    model.initialize(x, SetContext.of(x))
    assert torch.isfinite(model.log_prob(x, SetContext.of(x), generator=seeded(1))).all()
    if isinstance(model, CategoricalFlow):
        z = model.encoding.encode(x, SetContext.of(x), seeded(2)).z
        out, _ = model.flow(z, SetContext.of(x))
        assert out.mean().abs() < 0.5
        assert 0.5 < out.std() < 2.0


@every
def test_padding_does_not_change_probabilities(model: Model, kind: str, pad: Callable[..., Tensor]) -> None:
    x = categories()
    if kind == "discrete":  # has a base distribution for each position: the last ones are padding here
        short = SetContext(3, ELEMENTS, torch.tensor([[True] * 3 + [False] * 2] * 3))
        other = torch.where(short.mask, x, (x + 1) % CATEGORIES)
        torch.testing.assert_close(model.log_prob(x, short), model.log_prob(other, short))
        return
    assert isinstance(model, CategoricalFlow)
    noise = model.base.sample((3, ELEMENTS, model.encoding.channels), torch.Generator().manual_seed(4))
    wide = SetContext(3, 7, pad(torch.ones(3, ELEMENTS, dtype=torch.bool), 2, False))
    plain = value(model, x, noise, SetContext.of(x))
    for filling in (0, CATEGORIES - 1):
        padded = value(model, pad(x, 2, filling), pad(noise, 2), wide)
        torch.testing.assert_close(padded, plain, rtol=1e-4, atol=1e-4)


def value(model: CategoricalFlow, x: Tensor, noise: Tensor, ctx: SetContext) -> Tensor:
    """The bound for given noise."""
    encoded = model.encoding(x, noise, ctx)
    z, logdet = model.flow(encoded.z, ctx)
    return ctx.total(model.base.log_prob(z)) + logdet + encoded.log_weight


@pytest.mark.parametrize("kind", ["mixture", "linear", "variational", "latent"])
def test_order_does_not_matter(model: Model, seeded: Seeded) -> None:
    assert isinstance(model, CategoricalFlow)
    x = categories()
    noise = model.base.sample((3, ELEMENTS, model.encoding.channels), seeded(4))
    plain = value(model, x, noise, SetContext.of(x))
    for seed in range(3):
        order = torch.randperm(ELEMENTS, generator=seeded(seed))
        moved = value(model, x[:, order], noise[:, order], SetContext.of(x))
        torch.testing.assert_close(moved, plain, rtol=1e-4, atol=1e-4)


@every
@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan])
def test_impossible_temperatures(model: Model, temperature: float) -> None:
    with pytest.raises(InputError, match=rf"{temperature}.*above 0"):
        model.sample(SetContext(2, ELEMENTS), temperature=temperature)


@flows
def test_an_infinite_temperature_has_no_samples(model: Model) -> None:
    with pytest.raises(InputError, match="inf"):
        model.sample(SetContext(2, ELEMENTS), temperature=math.inf)


def broken(model: Model) -> list[Tensor]:
    """Makes the flow's roots unfindable; gives what is to be copied back into the parameters."""
    assert isinstance(model, CategoricalFlow)
    spreads = [part for name, part in model.flow.named_parameters() if name.endswith("spread")]
    kept = [part.detach().clone() for part in spreads]
    for part in spreads:
        part.data.fill_(math.nan)
    return [*spreads, *kept]


@pytest.mark.parametrize("kind", ["mixture"])
def test_inexact_samples_warn_where_they_are_asked_for(model: Model) -> None:
    broken(model)
    with pytest.warns(UserWarning, match="inexactly") as caught:
        model.sample(SetContext(2, ELEMENTS))
    assert caught[0].filename == __file__


@pytest.mark.parametrize("kind", ["mixture"])
def test_samples_are_not_blamed_for_earlier_reconstructions(model: Model) -> None:
    spreads = broken(model)
    model.reconstruct(X, SetContext.of(X))
    for part, kept in zip(spreads[: len(spreads) // 2], spreads[len(spreads) // 2 :], strict=True):
        part.data.copy_(kept)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.sample(SetContext(2, ELEMENTS))


@every
def test_low_temperatures_give_fewer_outcomes(model: Model, seeded: Seeded) -> None:
    ctx = SetContext(400, ELEMENTS)
    cold, warm = (len(model.sample(ctx, seeded(1), t).unique(dim=0)) for t in (1e-3, 1.0))
    assert cold < warm


@every
@pytest.mark.parametrize("samples", [0, -2])
def test_too_few_samples(model: Model, samples: int) -> None:
    x = categories()
    with pytest.raises(InputError, match=f"samples is {samples}"):
        model.log_prob(x, SetContext.of(x), samples=samples)


X = categories()
WRONG: dict[str, tuple[Tensor, SetContext, str]] = {
    "dtype": (X.float(), SetContext.of(X), r"float32.*integers"),
    "boolean": (X > 1, SetContext.of(X), r"bool.*integers"),
    "vector": (X[0], SetContext(1, ELEMENTS), r"\(5,\).*\[batch, elements\]"),
    "one-hot": (X.unsqueeze(-1), SetContext.of(X), r"\(3, 5, 1\).*\[batch, elements\]"),
    "no example": (X[:0], SetContext(0, ELEMENTS), r"\(0, 5\).*at least one"),
    "no element": (X[:, :0], SetContext(3, 0), r"\(3, 0\).*at least one"),
    "other context": (X, SetContext(4, ELEMENTS), r"\(3, 5\).*\(4, 5\)"),
    "too large": (X.clone().fill_(CATEGORIES), SetContext.of(X), r"Category 4 .* 0 to 3"),
    "negative": (X - 4, SetContext.of(X), r"Category -\d .* 0 to 3"),
}


@pytest.mark.parametrize("fault", WRONG)
@every
def test_wrong_categories_are_refused_in_one_sentence(model: Model, fault: str) -> None:
    x, ctx, message = WRONG[fault]
    for use in (model.log_prob, model.reconstruct):
        with pytest.raises(InputError, match=message) as error:
            use(x, ctx)
        assert "\n" not in str(error.value)
        assert str(error.value).endswith(".")


@every
def test_padding_may_hold_anything(model: Model, seeded: Seeded) -> None:
    x = categories()
    ctx = SetContext(3, ELEMENTS, torch.tensor([[True] * 4 + [False]] * 3))
    plain = model.log_prob(x.index_fill(1, torch.tensor([4]), 0), ctx, generator=seeded(1))
    for filling in (-1, CATEGORIES + 3):
        padded = model.log_prob(x.index_fill(1, torch.tensor([4]), filling), ctx, generator=seeded(1))
        torch.testing.assert_close(padded, plain)


@every
def test_all_accepted_integers_work(model: Model, seeded: Seeded) -> None:
    x = categories()
    ctx = SetContext.of(x)
    expected = model.log_prob(x, ctx, generator=seeded(1))
    for dtype in (torch.int32, torch.int16, torch.int8, torch.uint8):
        small = x.to(dtype)
        torch.testing.assert_close(model.log_prob(small, ctx, generator=seeded(1)), expected)
        assert torch.equal(model.reconstruct(small, ctx, seeded(1)), model.reconstruct(x, ctx, seeded(1)))


@pytest.mark.parametrize("kind", ["discrete"])
@pytest.mark.parametrize("use", ["log_prob", "reconstruct", "sample"])
def test_discrete_flows_refuse_other_numbers_of_elements(model: Model, use: str) -> None:
    assert isinstance(model, DiscreteFlow)
    x = categories(elements=ELEMENTS + 1)
    arguments = [SetContext.of(x)] if use == "sample" else [x, SetContext.of(x)]
    with pytest.raises(InputError, match=r"6 elements.*made for 5"):
        getattr(model, use)(*arguments)


@pytest.mark.parametrize("kind", ["discrete"])
def test_discrete_flows_ignore_the_number_of_draws(model: Model) -> None:
    x = categories()
    ctx = SetContext.of(x)
    torch.testing.assert_close(model.log_prob(x, ctx, samples=7), model.log_prob(x, ctx))
    assert torch.equal(model.reconstruct(x, ctx), x)


@flows
@given(batch=st.integers(1, 4), elements=st.integers(1, 6), samples=st.integers(1, 4))
def test_any_shape(kind: str, batch: int, elements: int, samples: int) -> None:
    torch.manual_seed(0)
    model = build(kind)
    x = categories(batch, elements)
    assert torch.isfinite(model.log_prob(x, SetContext.of(x), samples)).all()
    assert model.sample(SetContext(batch, elements)).shape == (batch, elements)
