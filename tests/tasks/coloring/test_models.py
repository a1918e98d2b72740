"""Models of colorings: their order of nodes means nothing, and their probabilities are probabilities."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor

from catnf.context import GraphContext, SetContext
from catnf.errors import InputError
from catnf.models import Model
from catnf.models.baselines import AutoregressiveColoring
from catnf.tasks.coloring import ColoringModelConfig, GraphColoring
from catnf.training.flat import FlatParameters

Seeded = Callable[[int], torch.Generator]
SIZES = {"hidden": 8, "blocks": 2, "heads": 2, "layers": 2, "mixtures": 3, "features": 4}
CONFIGS = {
    "graphcnf": ColoringModelConfig(**SIZES),
    "graphcnf, affine": ColoringModelConfig(couplings="affine", channels=3, **SIZES),
    "graphcnf, rounds": ColoringModelConfig(couplings="rounds", channels=1, **{**SIZES, "layers": 4}),
    "vae": ColoringModelConfig(kind="graph-vae", **SIZES),
    "largest first": ColoringModelConfig(kind="graph-autoregressive", order="largest-first", **SIZES),
    "smallest first": ColoringModelConfig(kind="graph-autoregressive", order="smallest-first", **SIZES),
    "random": ColoringModelConfig(kind="graph-autoregressive", order="random", **SIZES),
}
every = pytest.mark.parametrize("name", CONFIGS)
with_latents = pytest.mark.parametrize("name", ["graphcnf", "graphcnf, affine", "graphcnf, rounds", "vae"])


@pytest.fixture
def model(name: str, perturb: Callable[..., Model]) -> Model:
    return perturb(CONFIGS[name].make(GraphColoring()))


def graphs(seeded: Seeded, batch: int = 5, nodes: int = 6) -> tuple[Tensor, GraphContext]:
    mask = torch.arange(nodes) < torch.randint(3, nodes + 1, (batch, 1), generator=seeded(1))
    upper = torch.triu(torch.rand(batch, nodes, nodes, generator=seeded(2)) < 0.5, 1)
    edges = (upper | upper.mT) & mask.unsqueeze(1) & mask.unsqueeze(2)
    x = torch.randint(3, (batch, nodes), generator=seeded(3))
    ctx = GraphContext.of(edges, mask)
    return ctx.hide(x), ctx


def exact(model: Model, x: Tensor, ctx: GraphContext, draws: int, seed: int = 0) -> Tensor:
    return model.log_prob(x, ctx, draws, torch.Generator().manual_seed(seed))


@every
def test_samples_and_likelihoods_have_their_shapes(name: str, model: Model, seeded: Seeded) -> None:
    x, ctx = graphs(seeded)
    drawn = model.sample(ctx, seeded(4))
    assert drawn.shape == x.shape
    assert drawn.dtype == torch.int64
    assert int(drawn.min()) >= 0
    assert int(drawn.max()) <= 2
    assert ctx.mask is not None
    assert (drawn[~ctx.mask] == 0).all()
    assert torch.equal(drawn, model.sample(ctx, seeded(4)))
    value = exact(model, x, ctx, 2)
    assert value.shape == (5,)
    assert (value < 0).all()
    back = model.reconstruct(x, ctx, seeded(5))
    assert back.shape == x.shape


@with_latents
def test_likelihood_does_not_depend_on_the_order_of_nodes(name: str, model: Model, seeded: Seeded) -> None:
    # The noise of a node travels with it: draws are made once, and permuted.
    x, ctx = graphs(seeded)
    order = torch.randperm(x.shape[1], generator=seeded(6))
    assert ctx.mask is not None
    other = GraphContext.of(ctx.edges[:, order][:, :, order], ctx.mask[:, order])
    model = model.double()
    noise: list[Tensor] = []

    def value(x: Tensor, ctx: GraphContext, places: Tensor | None) -> Tensor:
        calls = iter(range(99))

        def draw(real: Callable[..., Tensor]) -> Callable[..., Tensor]:
            def drawn(*size: object, **options: object) -> Tensor:
                index = next(calls)
                if places is None:
                    noise.append(real(*size, **options))
                    return noise[index]
                return noise[index][:, places]

            return drawn

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "rand", draw(torch.rand))
            patch.setattr(torch, "randn", draw(torch.randn))
            return model.bound(x, ctx, seeded(7)).value

    with torch.no_grad():
        first = value(x, ctx, None)
        moved = value(x[:, order], other, order)
    torch.testing.assert_close(moved, first, rtol=0.0, atol=1e-4)


@every
def test_padding_changes_nothing(name: str, model: Model, seeded: Seeded) -> None:
    # Of several graphs of one size: padded, and as they are. Noise is drawn for every place, so only models
    # whose likelihood is exact, and the mean over many draws of the others, can be compared.
    x, ctx = graphs(seeded, batch=1, nodes=4)
    assert ctx.mask is not None
    edges = torch.zeros(1, 6, 6, dtype=torch.bool)
    edges[:, :4, :4] = ctx.edges
    real = torch.tensor([[True] * 4 + [False] * 2]) & torch.cat([ctx.mask, ctx.mask[:, :2]], 1)
    padded, other = torch.cat([x, torch.tensor([[2, 1]])], 1), GraphContext.of(edges, real)
    draws = 6000
    with torch.no_grad():
        one, two = (
            model.likelihood(values.repeat(draws, 1), given.repeat(draws), seeded(1)).double()
            for values, given in ((x, ctx), (padded, other))
        )
    error = float((one.var() / draws + two.var() / draws).sqrt())
    assert float(one.mean()) == pytest.approx(float(two.mean()), abs=5 * error + 1e-5)


def test_an_order_by_degree_does_not_depend_on_the_order_of_nodes(
    perturb: Callable[..., Model], seeded: Seeded
) -> None:
    model = perturb(CONFIGS["largest first"].make(GraphColoring()))
    star = torch.zeros(
        1, 4, 4, dtype=torch.bool
    )  # degrees 3, 2, 2, 1: ties at random, so the mean is compared
    for one, two in ((0, 1), (0, 2), (0, 3), (1, 2)):
        star[0, one, two] = star[0, two, one] = True
    x, order = torch.tensor([[0, 1, 2, 1]]), torch.tensor([2, 0, 3, 1])
    values = []
    for edges, colors in ((star, x), (star[:, order][:, :, order], x[:, order])):
        ctx = GraphContext.of(edges).repeat(4000)
        with torch.no_grad():
            values.append(model.likelihood(colors.repeat(4000, 1), ctx, seeded(1)))
    error = float((values[0].var() + values[1].var()).sqrt()) / 4000**0.5
    assert float(values[0].mean()) == pytest.approx(float(values[1].mean()), abs=5 * error + 1e-5)


@pytest.mark.parametrize("name", ["largest first", "smallest first", "random"])
def test_places_follow_degrees(name: str, model: AutoregressiveColoring, seeded: Seeded) -> None:
    _, ctx = graphs(seeded, batch=20)
    places, degrees = model.places(ctx, seeded(1)), ctx.edges.sum(-1)
    assert ctx.mask is not None
    for row in range(20):
        real = ctx.mask[row]
        count = int(real.sum())
        assert sorted(places[row][real].tolist()) == list(range(count)), "padding comes last"
        in_order = degrees[row][places[row].argsort()][:count].tolist()
        if name == "largest first":
            assert in_order == sorted(in_order, reverse=True)
        if name == "smallest first":
            assert in_order == sorted(in_order)
    others = torch.stack([model.places(ctx, seeded(seed)) for seed in range(2, 12)])
    assert (others != others[0]).any(), "ties are broken at random"


@pytest.mark.parametrize(
    ("name", "draws", "error"),
    [("random", 1, 1e-4), ("vae", 3000, 0.08)],
)
def test_probabilities_of_all_colorings_sum_to_one(
    name: str, draws: int, error: float, perturb: Callable[..., Model], seeded: Seeded
) -> None:
    model = perturb(CONFIGS[name].make(GraphColoring()), 0.1)
    x = torch.tensor(list(product(range(3), repeat=3)))
    edges = torch.tensor([[0, 1, 1], [1, 0, 0], [1, 0, 0]]).bool().expand(27, 3, 3)
    ctx = GraphContext.of(edges)
    if isinstance(model, AutoregressiveColoring):  # one order for all colorings
        model.places = lambda ctx, generator: torch.tensor([2, 0, 1]).expand(27, 3)  # type: ignore[method-assign]
    total = exact(model, x, ctx, draws).exp().sum()
    assert float(total) == pytest.approx(1.0, abs=error)


def test_the_training_bound_of_an_order_is_unbiased(perturb: Callable[..., Model], seeded: Seeded) -> None:
    model = perturb(CONFIGS["random"].make(GraphColoring()))
    x, ctx = graphs(seeded, batch=1)
    places = model.places(ctx, seeded(1))  # type: ignore[operator]
    model.places = lambda ctx, generator: places.expand(ctx.batch, -1)  # type: ignore[assignment]
    with torch.no_grad():
        estimates = model.bound(x.repeat(4000, 1), ctx.repeat(4000), seeded(2)).value
    truth = float(exact(model, x, ctx, 1))
    assert float(estimates.mean()) == pytest.approx(truth, abs=4 * float(estimates.std()) / 4000**0.5)


def test_the_divergence_in_the_loss_is_the_mean_of_the_bound(
    perturb: Callable[..., Model], seeded: Seeded
) -> None:
    model = perturb(CONFIGS["vae"].make(GraphColoring()))
    x, ctx = graphs(seeded, batch=1)
    many = ctx.repeat(4000)
    with torch.no_grad():
        loss, nats = model.loss(x.repeat(4000, 1), many, seeded(1))
        values = -model.bound(x.repeat(4000, 1), many, seeded(2)).value / many.counts(torch.zeros(1))
        heavier, same = model.loss(x.repeat(4000, 1), many, seeded(1), 3.0)
    assert float(loss) == float(nats)
    assert float(nats) == pytest.approx(float(values.mean()), abs=5 * float(values.std()) / 4000**0.5)
    assert float(same) == float(nats)
    assert float(heavier) > float(loss)


@every
def test_gradients_reach_every_parameter(name: str, model: Model, seeded: Seeded) -> None:
    x, ctx = graphs(seeded, batch=64)
    model.loss(x, ctx, seeded(1))[0].backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert torch.isfinite(parameter.grad).all(), key
        assert parameter.grad.abs().max() > 0, key


@every
def test_networks_are_found_for_low_precision(name: str, model: Model) -> None:
    flat = FlatParameters(model)
    assert flat.network_end > 0.7 * len(flat.values)
    assert flat.stacks, "hidden matrices are there to be orthogonalized"


def test_orders_need_graphs() -> None:
    model = CONFIGS["random"].make(GraphColoring())
    with pytest.raises(InputError, match="Orders by degree need a GraphContext"):
        model.sample(SetContext(1, 3))


@pytest.mark.parametrize(
    ("field", "value"), [("hidden", 6), ("layers", 0), ("channels", 1), ("reach", 0.0), ("heads", 0)]
)
def test_sizes_that_make_no_sense(field: str, value: float) -> None:
    with pytest.raises(InputError, match=f"model.{field} is {value}"):
        ColoringModelConfig(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["graphcnf, rounds"])
def test_training_on_one_round_averages_to_the_bound(name: str, model: Model, seeded: Seeded) -> None:
    x, ctx = graphs(seeded, batch=2)
    draws, many = 20_000, ctx.repeat(20_000)
    x = x.repeat_interleave(draws, 0)
    with torch.no_grad():
        means, errors = [], []
        for bound in (model.bound, model.training_bound):
            drawn = torch.stack(bound(x, many, seeded(5)), -1).view(2, draws, 2)
            means.append(drawn.mean(1))
            errors.append(drawn.std(1) / draws**0.5)
    assert ((means[0] - means[1]).abs() < 4 * (errors[0] + errors[1])).all()
    assert (errors[1] > 0).all()
