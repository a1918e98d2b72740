"""Graphs in stages: every stage given those before, and probabilities that sum to 1."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from catnf.context import Context
from catnf.encodings import SpacedEncoding
from catnf.flows.category_coupling import CategoryCoupling
from catnf.flows.joint import GraphLatents
from catnf.flows.rounds import FLAGS, Rounds, RoundStep
from catnf.models import FlowInRounds
from catnf.models.graph_model import GraphModel
from catnf.models.growth import GrowthFlow
from catnf.models.staged_graph import KIND_FEATURES, StagedGraphFlow, node_features
from catnf.nets import GraphAttention
from catnf.nets.growth import GrowthNetwork
from catnf.pairs import pair_index, pair_layout
from catnf.structure import LENGTHS, edge_structure, node_structure, walks


def in_rounds(categories: int, features: int, elements: int) -> FlowInRounds:
    network = GraphAttention(categories, categories, features + FLAGS, hidden=16, layers=2, heads=2)
    step = RoundStep(network, CategoryCoupling(categories))
    return FlowInRounds(SpacedEncoding(categories), Rounds(step, elements, elements, free=0))


def staged(
    categories: int = 3, kinds: int = 2, largest: int = 5, slots: int = 6, steps: int | None = None
) -> StagedGraphFlow:
    growth = GrowthNetwork(largest + 1, steps or largest - 1, hidden=16, layers=2, heads=2)
    return StagedGraphFlow(
        GrowthFlow(growth),
        in_rounds(kinds, KIND_FEATURES, slots),
        in_rounds(categories, node_features(kinds), largest),
        slots,
        torch.ones(largest + 1) / (largest + 1),
    )


@pytest.fixture
def model() -> StagedGraphFlow:
    torch.manual_seed(0)
    made = staged()
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return made


def context(batch: int, nodes: int = 5) -> Context:
    sizes = torch.arange(batch) % (nodes - 1) + 2
    return Context(batch, nodes, torch.arange(nodes) < sizes.unsqueeze(1))


def graphs(ctx: Context, slots: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    pairs = ctx.pairs()
    nodes = torch.randint(3, (ctx.batch, ctx.elements), generator=generator)
    kind = torch.randint(1, 3, (ctx.batch, pairs.elements), generator=generator)
    chance = pairs.hide(torch.rand(ctx.batch, pairs.elements, generator=generator))
    kept = (chance > 0.5) & (chance.argsort(1, descending=True).argsort(1) < slots)
    return torch.cat([ctx.hide(nodes), kind * kept], dim=1)


def latents(model: StagedGraphFlow, batch: int, nodes: int, pairs: int) -> GraphLatents:
    generator = torch.Generator().manual_seed(5)
    of_node, of_pair = model.channels
    return GraphLatents(
        torch.randn(batch, nodes, of_node, generator=generator).double(),
        torch.randn(batch, pairs, of_pair, generator=generator).double(),
    )


def test_walks_tell_rings_from_chains() -> None:
    forward = torch.roll(torch.eye(6, dtype=torch.bool), 1, dims=1)
    ends = walks((forward | forward.mT).unsqueeze(0))
    returns = node_structure(ends)
    assert returns.shape == (1, 6, len(LENGTHS))
    assert returns[0, :, 0].tolist() == pytest.approx([0.5] * 6), "half of the walks of two steps come back"
    assert returns[0, :, 4].tolist() == pytest.approx([22 / 64] * 6), "20 back and forth, 2 around the ring"
    edges = edge_structure(ends, one_edge(2, 3, nodes=6))
    torch.testing.assert_close(edge_structure(ends, one_edge(3, 2, nodes=6)), edges)
    assert edges.shape == (1, 1, 2 * len(LENGTHS))
    assert edges[0, 0, 0] == 0, "no walk of two steps leads across an edge of an even ring"
    assert edges[0, 0, 3] == pytest.approx(2 * 11 / 32), "10 of 5 steps over the edge itself, 1 around"
    chain = torch.diag(torch.ones(11), 1) > 0
    straight = edge_structure(walks((chain | chain.mT).unsqueeze(0)), one_edge(5, 6, nodes=12))
    assert straight[0, 0, 3] == pytest.approx(2 * 10 / 32)


def one_edge(first: int, second: int, nodes: int) -> Tensor:
    incidence = torch.zeros(1, 2, 1, nodes)
    incidence[0, 0, 0, first] = incidence[0, 1, 0, second] = 1.0
    return incidence


def test_graphs_survive_the_latent_space(model: StagedGraphFlow) -> None:
    ctx = context(40)
    x = graphs(ctx)
    z = model.encode(x, ctx, torch.Generator().manual_seed(0))
    assert z.nodes.shape == (40, 5, model.channels[0])
    assert z.edges.shape == (40, 10, model.channels[1])
    assert torch.equal(model.decode(z, ctx), x)
    assert torch.equal(model.reconstruct(x, ctx, torch.Generator().manual_seed(1)), x)


def test_the_order_of_nodes_means_nothing(model: StagedGraphFlow) -> None:
    model.double()
    ctx = Context(30, 5)
    z = latents(model, 30, 5, 10)
    order = torch.tensor([3, 0, 4, 1, 2])
    layout = pair_layout(5)
    places = layout.matrix[order[layout.first], order[layout.second]]
    x, moved = model.decode(z, ctx), model.decode(GraphLatents(z.nodes[:, order], z.edges[:, places]), ctx)
    assert torch.equal(moved, torch.cat([x[:, order], x[:, 5 + places]], dim=1))
    assert len(x[:, 5:].unique()) == 3, "edges of every kind and pairs without one"


def test_padding_changes_nothing(model: StagedGraphFlow) -> None:
    model.double()
    small, large = Context(20, 3), Context(20, 5, torch.arange(5).repeat(20, 1) < 3)
    z = latents(model, 20, 3, 3)
    layout = pair_layout(3)
    places = pair_index(layout.first, layout.second, 5)
    more = GraphLatents(
        z.nodes.new_zeros(20, 5, z.nodes.shape[2]), z.edges.new_zeros(20, 10, z.edges.shape[2])
    )
    more.nodes[:, :3], more.edges[:, places] = z.nodes, z.edges
    x, wide = model.decode(z, small), model.decode(more, large)
    assert torch.equal(wide[:, :3], x[:, :3])
    assert torch.equal(wide[:, 5 + places], x[:, 3:])


def test_training_on_one_round_averages_to_the_bound(model: StagedGraphFlow) -> None:
    ctx = context(2, 4)
    draws, x = 10_000, graphs(ctx)
    x, many = x.repeat_interleave(draws, 0), ctx.repeat(draws)
    with torch.no_grad():
        found = []
        for bound in (model.bound, model.training_bound):
            drawn = torch.stack(bound(x, many, torch.Generator().manual_seed(2)), -1).view(2, draws, 2)
            found.append((drawn.mean(1), drawn.std(1) / draws**0.5))
    (whole, error), (part, other) = found
    assert ((whole - part).abs() <= 4 * (error + other)).all()


def test_gradients_reach_every_parameter(model: StagedGraphFlow) -> None:
    ctx = context(40)
    model.loss(graphs(ctx), ctx, torch.Generator().manual_seed(0))[0].backward()
    missing = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().any()]
    assert missing == []


def test_walks_that_do_not_tell_a_graph_are_impossible() -> None:
    torch.manual_seed(0)
    model = staged(steps=1)
    x = torch.zeros(2, 15, dtype=torch.int64)
    x[0, 5:7] = x[1, 5:7] = x[1, 9] = 1  # a chain of three nodes, and a ring of them
    value = model.bound(x, Context(2, 5), torch.Generator().manual_seed(0)).value
    assert value.isfinite().tolist() == [True, False]


@pytest.mark.slow
def test_probabilities_of_all_small_graphs_sum_to_one(sum_to_one: Callable[[GraphModel], None]) -> None:
    torch.manual_seed(0)
    sum_to_one(staged(categories=2, kinds=2, largest=3, slots=3))
