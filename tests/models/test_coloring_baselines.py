"""The baselines of graph coloring are distributions, and orders go by degree."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from catnf.context import GraphContext, SetContext
from catnf.errors import InputError
from catnf.models import Model
from catnf.models.baselines import AutoregressiveColoring, GraphVAE
from catnf.models.baselines.autoregressive import Order
from catnf.nets import GraphAttention

COLORS = 3
EDGES = ((0, 1), (1, 2), (1, 3))
STATES = torch.tensor(list(product(range(COLORS), repeat=4)))  # [81, 4]
CODE = torch.tensor([27, 9, 3, 1])
Seeded = Callable[[int], torch.Generator]
KINDS = ["vae", "largest-first", "smallest-first", "random"]


def star(batch: int) -> GraphContext:
    adjacency = torch.zeros(batch, 4, 4, dtype=torch.bool)
    for one, two in EDGES:
        adjacency[:, one, two] = adjacency[:, two, one] = True
    return GraphContext.of(adjacency)


def network(inputs: int, outputs: int) -> GraphAttention:
    return GraphAttention(inputs, outputs, 0, 16, 2, 2)


def build(kind: str) -> Model:
    if kind == "vae":
        return GraphVAE(COLORS, 2, 5, network(5, 4), network(2, COLORS))
    order: Order = kind  # type: ignore[assignment]
    return AutoregressiveColoring(COLORS, network(5, COLORS), 5, order)


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest, perturb: Callable[..., Model], seeded: Seeded) -> Model:
    """Trained a little on colorings of a star."""
    made = perturb(build(request.param), 0.1)
    valid = torch.stack([STATES[:, one] != STATES[:, two] for one, two in EDGES]).all(0)
    colorings, generator = STATES[valid], seeded(0)
    optimizer = torch.optim.Adam(made.parameters(), lr=1e-2)
    for _ in range(40):
        x = colorings[torch.randint(len(colorings), (64,), generator=generator)]
        loss, nats = made.loss(x, star(64), generator)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if made.exact:
        assert float(nats) < math.log(COLORS), "it has learned something"
    else:  # so short a training leaves latents without a meaning
        perturb(made, 0.1)
    return made.eval()


def probabilities(model: Model, seeded: Seeded, draws: int = 400) -> Tensor:
    """Of all colorings; orders are averaged over, since ties between nodes are broken at random."""
    ctx = star(len(STATES))
    if not model.exact:
        return model.log_prob(STATES, ctx, draws, seeded(1)).exp()
    parts = [model.log_prob(STATES, ctx, 1, seeded(seed)).exp() for seed in range(60)]
    return torch.stack(parts).mean(0)


def test_probabilities_add_up_to_one_and_samples_follow_them(model: Model, seeded: Seeded) -> None:
    expected = probabilities(model, seeded)
    assert float(expected.sum()) == pytest.approx(1.0, abs=0.03)
    drawn = model.sample(star(6000), seeded(2))
    shares = torch.bincount(drawn @ CODE, minlength=len(STATES)) / len(drawn)
    assert 0.5 * float((shares - expected).abs().sum()) < 0.06


def test_training_sees_the_likelihood_on_average(model: Model, seeded: Seeded) -> None:
    """One random position, or the exact divergence, instead of all positions, or one draw of it."""
    x = torch.tensor([[0, 1, 0, 2]]).expand(6000, -1)
    with torch.no_grad():
        trained = model.training_bound(x, star(6000), seeded(3)).value
        drawn = model.likelihood(x, star(6000), seeded(4))
    error = math.sqrt(float(trained.var() + drawn.var()) / 6000)
    assert float(trained.mean() - drawn.mean()) == pytest.approx(0.0, abs=4.5 * error + 1e-3)


def test_colder_samples_are_more_alike(model: Model, seeded: Seeded) -> None:
    cold, warm = (model.sample(star(300), seeded(5), temperature) for temperature in (0.05, 1.0))
    assert len(cold.unique(dim=0)) < len(warm.unique(dim=0))


def test_padding_changes_nothing_and_is_drawn_as_zero(model: Model, seeded: Seeded) -> None:
    plain, mask = star(50), torch.arange(6).expand(50, -1) < 4
    adjacency = torch.zeros(50, 6, 6, dtype=torch.bool)
    adjacency[:, :4, :4] = plain.edges
    padded = GraphContext.of(adjacency, mask)
    drawn = model.sample(padded, seeded(1))
    assert not drawn[:, 4:].any()
    rows = torch.cat([drawn[:, :4], torch.full((50, 2), COLORS - 1)], 1)  # whatever stands at padding
    seeds = range(40) if model.exact else range(1)
    values = [
        torch.stack([model.log_prob(x, ctx, 400, seeded(seed)) for seed in seeds]).mean()
        for x, ctx in ((drawn[:, :4], plain), (rows, padded))
    ]
    assert float(values[0]) == pytest.approx(float(values[1]), abs=0.06)


def test_reconstruction(model: Model, seeded: Seeded) -> None:
    back = model.reconstruct(STATES, star(len(STATES)), seeded(1))
    assert back.shape == STATES.shape
    assert back.data_ptr() != STATES.data_ptr()
    if model.exact:
        assert torch.equal(back, STATES)
    else:
        assert set(back.unique().tolist()) <= set(range(COLORS))


@given(
    order=st.sampled_from(["largest-first", "smallest-first", "random"]),
    nodes=st.integers(1, 9),
    density=st.floats(0, 1),
    seed=st.integers(0, 2**20),
)
def test_places_are_an_order_by_degree(order: Order, nodes: int, density: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(1, nodes + 1, (5,), generator=generator)
    mask = torch.arange(nodes) < sizes.unsqueeze(1)
    upper = (torch.rand(5, nodes, nodes, generator=generator) < density).triu(1)
    adjacency = (upper | upper.mT) & mask.unsqueeze(1) & mask.unsqueeze(2)
    model = AutoregressiveColoring(COLORS, network(5, COLORS), 5, order)
    places = model.places(GraphContext.of(adjacency, mask), generator)
    assert torch.equal(places.sort(1).values, torch.arange(nodes).expand(5, -1))
    assert torch.equal(places < sizes.unsqueeze(1), mask), "padding comes last"
    for row, size in enumerate(sizes.tolist()):
        degrees = adjacency[row].sum(1)[places[row].argsort()][:size].tolist()
        if order != "random":
            assert degrees == sorted(degrees, reverse=order == "largest-first")


def test_orders_need_a_graph() -> None:
    model = AutoregressiveColoring(COLORS, network(5, COLORS), 5, "largest-first")
    with pytest.raises(InputError, match="need a GraphContext, not a SetContext"):
        model.likelihood(STATES, SetContext.of(STATES))
