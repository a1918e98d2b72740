"""Models of tables are distributions: their probabilities add up, their densities integrate."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor, nn

from catnf.context import ColumnContext, SetContext, TableContext
from catnf.errors import InputError
from catnf.models import CategoricalFlow, Model
from catnf.models.model import draw_categories
from catnf.models.table_flow import ColumnFlow, TableFlow
from catnf.tabular.coding import TableCode
from catnf.tabular.fitting import Sizes, build
from catnf.tabular.schema import Column
from catnf.tasks.table.models import TableModelConfig, build_table_model

SIZES = (2, 4, 3)
STATES = torch.tensor(list(product(*(range(size) for size in SIZES))))  # [24, 3]
Seeded = Callable[[int], torch.Generator]
Perturb = Callable[[nn.Module, float], nn.Module]


def frequencies() -> Tensor:
    out = torch.zeros(len(SIZES), max(SIZES))
    for column, size in enumerate(SIZES):
        out[column, :size] = 1.0 / size
    return out


def categorical(kind: str, perturb: Perturb, seeded: Seeded) -> Model:
    config = TableModelConfig(kind=kind, hidden=8, layers=4, mixtures=2)  # type: ignore[arg-type]
    model = build_table_model(config, frequencies())
    perturb(model, 0.05)
    model.initialize(STATES.repeat(50, 1), SetContext.of(STATES.repeat(50, 1)), seeded(0))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    # A dependent table, so that what is added up is no product of columns.
    weights = torch.softmax(1.5 * (STATES[:, 0] == STATES[:, 1] % 2) + 0.5 * STATES[:, 2], dim=0)
    generator = seeded(1)
    for _ in range(60):
        x = STATES[torch.multinomial(weights, 64, replacement=True, generator=generator)]
        loss, _ = model.loss(x, SetContext.of(x), generator)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@pytest.mark.parametrize("kind", ["table-mixture", "table-latent", "table-dequantization"])
def test_probabilities_of_all_rows_add_up_to_one(kind: str, perturb: Perturb, seeded: Seeded) -> None:
    """Averages of exponentiated bounds are unbiased; over the whole cross product they make 1."""
    model, ctx = categorical(kind, perturb, seeded), SetContext.of(STATES)
    bounds = [float(model.log_prob(STATES, ctx, n, seeded(n)).exp().sum()) for n in (1, 30, 3000)]
    assert bounds[2] == pytest.approx(1.0, abs=0.05)
    few = float(torch.stack([model.log_prob(STATES, ctx, 1, seeded(s)) for s in range(40)]).mean())
    many = float(model.log_prob(STATES, ctx, 3000, seeded(9)).mean())
    assert few <= many + 0.01, "more draws tighten the bound"


@pytest.mark.parametrize("kind", ["table-mixture", "table-latent", "table-dequantization"])
def test_samples_have_the_probabilities(kind: str, perturb: Perturb, seeded: Seeded) -> None:
    model = categorical(kind, perturb, seeded)
    probabilities = model.log_prob(STATES, SetContext.of(STATES), 1000, seeded(3)).exp()
    assert isinstance(model, CategoricalFlow)
    rows = TableFlow(model, None, torch.tensor(SIZES))
    drawn = draw_categories(rows.posterior(rows.latents(20_000, seeded(4))), seeded(5))
    index = (drawn[:, 0] * SIZES[1] + drawn[:, 1]) * SIZES[2] + drawn[:, 2]
    shares = torch.bincount(index, minlength=len(STATES)) / len(drawn)
    assert 0.5 * float((shares - probabilities).abs().sum()) < 0.05


def in_turns(perturb: Perturb) -> ColumnFlow:
    """A model of three columns in any order, with weights that are far from independence."""
    names = (("a", SIZES[0]), ("b", SIZES[1]), ("c", SIZES[2]))
    _, rows = table(
        *(Column(name, "categorical", "object", labels=tuple(map(str, range(size)))) for name, size in names)
    )
    assert isinstance(rows.categorical, ColumnFlow)
    perturb(rows.categorical.flow, 0.5)
    return rows.categorical


def test_any_order_is_a_distribution(perturb: Perturb, seeded: Seeded) -> None:
    model, ctx = in_turns(perturb), SetContext.of(STATES)
    for draws in (1, 50):  # every single order is one
        total = float(model.log_prob(STATES, ctx, draws, seeded(draws)).exp().sum())
        assert total == pytest.approx(1.0, abs=0.3 if draws == 1 else 0.03)
    turns = torch.tensor([2, 0, 1]).expand(len(STATES), -1)
    same = ColumnContext(len(STATES), 3, turns=turns)
    assert float(model.log_prob(STATES, same, 1, seeded(2)).exp().sum()) == pytest.approx(1.0, abs=1e-3)


def test_any_order_draws_what_it_scores(perturb: Perturb, seeded: Seeded) -> None:
    model = in_turns(perturb)
    probabilities = model.log_prob(STATES, SetContext.of(STATES), 500, seeded(3)).exp()
    rows = TableFlow(model, None, torch.tensor(SIZES))
    drawn = draw_categories(rows.posterior(rows.latents(20_000, seeded(4))), seeded(5))
    index = (drawn[:, 0] * SIZES[1] + drawn[:, 1]) * SIZES[2] + drawn[:, 2]
    shares = torch.bincount(index, minlength=len(STATES)) / len(drawn)
    assert 0.5 * float((shares - probabilities).abs().sum()) < 0.05


def test_any_order_goes_back(perturb: Perturb, seeded: Seeded) -> None:
    model = in_turns(perturb)
    ctx = model.prepare(SetContext.of(STATES), seeded(1))
    with torch.no_grad():
        z = model.encoding.encode(STATES, ctx, seeded(2)).z
        out, logdet = model.flow(z, ctx)
        density = model.flow.log_density(z, ctx, model.base)
        back = model.flow.inverse(out, ctx)
    assert torch.allclose(density, ctx.total(model.base.log_prob(out)) + logdet, atol=1e-3)
    assert torch.equal(model.encoding.decode(back, ctx), STATES)


def test_what_is_given_is_kept(perturb: Perturb, seeded: Seeded) -> None:
    """Rows given a column come from the orders in which it is the first."""
    model = in_turns(perturb)
    rows = TableFlow(model, None, torch.tensor(SIZES))
    x, log_weight = rows.draw_given(20_000, torch.tensor([-1, 1, -1]), seeded(1))
    assert (x[:, 1] == 1).all()
    assert float(log_weight.std()) == pytest.approx(0.0, abs=1e-5)
    states = STATES[STATES[:, 1] == 1]
    expected = torch.zeros(len(states))
    for turns in ([1, 0, 2], [2, 0, 1]):
        ctx = ColumnContext(len(states), 3, turns=torch.tensor(turns).expand(len(states), -1))
        expected += 0.5 * model.log_prob(states, ctx, 1, seeded(2)).exp()
    assert float(expected.sum().log()) == pytest.approx(float(log_weight[0]), abs=1e-3)
    shares = torch.bincount(x[:, 0] * SIZES[2] + x[:, 2], minlength=len(states)) / len(x)
    assert 0.5 * float((shares - expected / expected.sum()).abs().sum()) < 0.03


def table(*columns: Column) -> tuple[TableCode, TableFlow]:
    code = TableCode(columns, 100)
    sizes = Sizes(hidden=8, layers=2, heads=2, mixtures=3, batch=8, steps=1)
    frequencies = torch.zeros(len(code.sizes), max(code.sizes, default=1))
    for element, size in enumerate(code.sizes):
        frequencies[element, :size] = 1.0 / size
    return code, build(code, sizes, frequencies)


LABEL = Column("label", "categorical", "object", labels=("a", "b"))
LENGTH = Column("length", "continuous", "float64", numbers=True, center=3.0, scale=2.0, low=-9, high=9)
COUNT = Column("count", "integer", "int64", numbers=True, center=5.0, scale=3.0, low=0, high=20)


@pytest.mark.parametrize("label", [0, 1])
def test_densities_integrate_to_one_in_the_units_of_the_data(
    label: int, perturb: Perturb, seeded: Seeded
) -> None:
    _, model = table(LABEL, LENGTH)
    assert model.numeric is not None
    perturb(model.numeric, 0.3)
    # Evenly spaced where the flow works: tails of the density itself are long.
    values = LENGTH.center + LENGTH.scale * torch.sinh(torch.linspace(-25, 25, 40_001, dtype=torch.float64))
    x = torch.full((len(values), 1), label)
    numbers = ((values - LENGTH.center) / LENGTH.scale).float().unsqueeze(1)
    with torch.no_grad():
        log_density = model.numeric.log_prob(x, numbers, torch.ones_like(numbers, dtype=torch.bool), None)
    assert float(torch.trapezoid(log_density.double().exp(), values)) == pytest.approx(1.0, abs=0.01)


def test_probabilities_of_whole_numbers_add_up_to_one(perturb: Perturb, seeded: Seeded) -> None:
    _, model = table(LABEL, COUNT)
    assert model.numeric is not None
    perturb(model.numeric, 0.05)
    values = torch.arange(-1000, 1000).float()
    x = torch.zeros(len(values), 1, dtype=torch.int64)
    numbers = ((values - COUNT.center) / COUNT.scale).unsqueeze(1)
    ctx = TableContext(len(x), 1, numbers=numbers, present=torch.ones_like(numbers, dtype=torch.bool))
    mass = model.row_likelihood(x, ctx, 400, seeded(5)).numeric.exp()
    assert float(mass.sum()) == pytest.approx(1.0, abs=0.03)


def test_absent_numbers_count_nothing(perturb: Perturb, seeded: Seeded) -> None:
    _, model = table(LABEL, LENGTH, COUNT)
    perturb(model, 0.2)
    x, numbers = torch.zeros(4, 1, dtype=torch.int64), torch.randn(4, 2, generator=seeded(1))
    nothing = TableContext(4, 1, numbers=numbers, present=torch.zeros(4, 2, dtype=torch.bool))
    assert torch.equal(model.row_likelihood(x, nothing, 3, seeded(2)).numeric, torch.zeros(4))


def test_numbers_come_back_from_samples(perturb: Perturb, seeded: Seeded) -> None:
    """Where samples are dense, so is the density: both belong to one distribution."""
    _, model = table(LABEL, LENGTH)
    assert model.numeric is not None
    perturb(model.numeric, 0.3)
    x = torch.ones(20_000, 1, dtype=torch.int64)
    with torch.no_grad():
        drawn = model.numeric.sample(x, torch.ones(20_000, 1, dtype=torch.bool), seeded(1)).squeeze(1)
        low, high = drawn.quantile(0.2), drawn.quantile(0.8)
        grid = torch.linspace(float(low), float(high), 2001)
        there = torch.ones(2001, 1, dtype=torch.bool)
        log_density = model.numeric.log_prob(x[:2001], grid.unsqueeze(1), there, None)
    mass = float(torch.trapezoid(log_density.exp(), grid)) * math.exp(float(model.numeric.log_scales[0]))
    assert mass == pytest.approx(0.6, abs=0.02)


def test_categories_beyond_a_column_are_refused() -> None:
    _, model = table(LABEL, Column("other", "categorical", "object", labels=("a", "b", "c")))
    x = torch.tensor([[2, 0]])
    ctx = TableContext(1, 2, numbers=torch.zeros(1, 0), present=torch.zeros(1, 0, dtype=torch.bool))
    with pytest.raises(InputError, match="beyond those it was fitted with"):
        model.log_prob(x, ctx)


def test_what_is_not_known_is_summed_over(perturb: Perturb, seeded: Seeded) -> None:
    """A cell that is not known comes last in any order, where it adds up to 1."""
    model = in_turns(perturb)
    turns = torch.tensor([2, 0, 1]).expand(len(STATES), -1)  # moved behind by the mask
    mask = torch.tensor([True, False, True]).expand(len(STATES), -1)
    known = model.log_prob(STATES, ColumnContext(len(STATES), 3, mask, turns=turns), 1, seeded(1)).exp()
    last = torch.tensor([1, 2, 0]).expand(len(STATES), -1)
    whole = model.log_prob(STATES, ColumnContext(len(STATES), 3, turns=last), 1, seeded(2)).exp()
    summed = whole.view(SIZES).sum(1, keepdim=True).expand(SIZES)
    assert torch.allclose(known.view(SIZES), summed, atol=1e-4)


def test_what_is_given_is_weighted_where_columns_take_no_turns(perturb: Perturb, seeded: Seeded) -> None:
    model = categorical("table-mixture", perturb, seeded)
    assert isinstance(model, CategoricalFlow)
    rows = TableFlow(model, None, torch.tensor(SIZES))
    x, log_weight = rows.draw_given(20_000, torch.tensor([-1, 1, -1]), seeded(1))
    assert (x[:, 1] == 1).all()
    states = STATES[STATES[:, 1] == 1]
    expected = model.log_prob(states, SetContext.of(states), 1000, seeded(3)).exp()
    assert float(log_weight.exp().mean()) == pytest.approx(float(expected.sum()), abs=0.02)
    place = x[:, 0] * SIZES[2] + x[:, 2]
    shares = torch.bincount(place, log_weight.exp(), minlength=len(states)) / log_weight.exp().sum()
    assert 0.5 * float((shares - expected / expected.sum()).abs().sum()) < 0.05


def mixed(seeded: Seeded, perturb: Perturb, *columns: Column) -> tuple[TableFlow, Tensor, TableContext]:
    """A model of some columns, and 16 rows of them."""
    code, model = table(*columns)
    perturb(model, 0.2)
    x = (
        torch.stack([torch.randint(size, (16,), generator=seeded(size)) for size in code.sizes], 1)
        if code.sizes
        else torch.zeros(16, 0, dtype=torch.int64)
    )
    numbers = torch.randn(16, len(code.numeric), generator=seeded(1))
    present = torch.rand(numbers.shape, generator=seeded(2)) < 0.8
    return model, x, TableContext(16, x.shape[1], numbers=numbers, present=present)


def test_training_leaves_out_the_noise_of_latents_alone(perturb: Perturb, seeded: Seeded) -> None:
    """Categories start so far apart that every latent tells its own, and numbers count as they are."""
    other = Column("other", "categorical", "object", labels=("a", "b", "c"))
    model, x, ctx = mixed(seeded, perturb, LABEL, other, LENGTH)
    model.initialize(x, ctx, seeded(3))
    with torch.no_grad():
        trained, whole = (bound(x, ctx, seeded(4)).value for bound in (model.training_bound, model.bound))
    assert torch.allclose(trained, whole, atol=0.02)
    loss, nats = model.loss(x, ctx, seeded(4))
    assert float(loss.detach()) == pytest.approx(float(nats)), "nothing is reconstructed in training"
    assert float(nats) == pytest.approx(-float(trained.mean()) / 3, abs=1e-5)
    loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("columns", [(LABEL, LENGTH, COUNT), (LENGTH, COUNT), (LABEL,)], ids=len)
def test_the_likelihood_is_that_of_both_parts(
    columns: tuple[Column, ...], perturb: Perturb, seeded: Seeded
) -> None:
    model, x, ctx = mixed(seeded, perturb, *columns)
    model.initialize(x, ctx, seeded(3))
    parts = model.row_likelihood(x, ctx, 5, seeded(6))
    assert torch.equal(model.log_prob(x, ctx, 5, seeded(6)), parts.categorical + parts.numeric)
    if LABEL not in columns:
        assert not parts.categorical.any()
    if LENGTH not in columns:
        assert not parts.numeric.any()
    with torch.no_grad():
        bound = torch.stack([model.bound(x, ctx, seeded(seed)).value for seed in range(200)])
    many = model.log_prob(x, ctx, 200, seeded(7))
    assert float(bound.mean()) <= float(many.mean()) + 0.02, "more draws tighten the bound"
