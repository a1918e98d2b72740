"""Graph attention."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from catnf.context import GraphContext, SetContext
from catnf.errors import InputError
from catnf.nets import GraphAttention
from catnf.nets.gat import GraphAttentionLayer

Seeded = Callable[[int], torch.Generator]
NODES, HIDDEN, HEADS = 6, 8, 2


@pytest.fixture
def network(perturb: Callable[..., GraphAttention]) -> GraphAttention:
    return perturb(GraphAttention(2, 5, 3, hidden=HIDDEN, layers=2, heads=HEADS, degrees=4))


def inputs(seeded: Seeded) -> tuple[Tensor, GraphContext]:
    upper = torch.triu(torch.rand(3, NODES, NODES, generator=seeded(1)) < 0.5, 1)
    kept = torch.randn(3, NODES, 2, generator=seeded(2))
    features = torch.randn(3, NODES, 3, generator=seeded(3))
    return kept, GraphContext.of(upper | upper.mT).with_features(features)


def test_relabelled_nodes_give_relabelled_outputs(network: GraphAttention, seeded: Seeded) -> None:
    kept, ctx = inputs(seeded)
    assert ctx.features is not None
    order = torch.randperm(NODES, generator=seeded(4))
    other = GraphContext.of(ctx.edges[:, order][:, :, order]).with_features(ctx.features[:, order])
    torch.testing.assert_close(network(kept[:, order], other), network(kept, ctx)[:, order])


def test_padding_changes_nothing(network: GraphAttention, seeded: Seeded) -> None:
    kept, ctx = inputs(seeded)
    assert ctx.features is not None
    edges = torch.zeros(3, NODES + 2, NODES + 2, dtype=torch.bool)
    edges[:, :NODES, :NODES] = ctx.edges
    mask = torch.arange(NODES + 2).expand(3, -1) < NODES
    features = torch.cat([ctx.features, torch.full((3, 2, 3), 9.0)], 1)
    padded = GraphContext.of(edges, mask).with_features(features)
    out = network(torch.cat([kept, torch.full((3, 2, 2), 9.0)], 1), padded)
    torch.testing.assert_close(out[:, :NODES], network(kept, ctx))
    assert torch.isfinite(out).all()


def test_news_travels_one_edge_a_layer(perturb: Callable[..., GraphAttention]) -> None:
    network = perturb(GraphAttention(1, 1, hidden=HIDDEN, layers=2, heads=HEADS))
    edges = torch.zeros(1, NODES, NODES, dtype=torch.bool)
    for node in range(NODES - 1):  # a path
        edges[0, node, node + 1] = edges[0, node + 1, node] = True
    kept = torch.zeros(1, NODES, 1, requires_grad=True)
    out = network(kept, GraphContext.of(edges))
    (gradient,) = torch.autograd.grad(out[0, 0, 0], kept)
    assert (gradient[0, :3, 0] != 0).all()
    assert (gradient[0, 3:, 0] == 0).all()


@pytest.mark.parametrize("expansion", [1, 2])
def test_attention_is_an_average(seeded: Seeded, expansion: int) -> None:
    layer = GraphAttentionLayer(HIDDEN, HEADS, expansion)
    h = torch.randn(2, NODES, HIDDEN, generator=seeded(1))
    edges = torch.ones(2, NODES, NODES, dtype=torch.bool) & ~torch.eye(NODES, dtype=torch.bool)
    with torch.no_grad():  # one value for all, whatever the relation: any weights with sum 1 leave it alone
        layer.values.weight.zero_()
        layer.values.register_parameter(
            "bias", torch.nn.Parameter(torch.full((2 * expansion * HIDDEN,), 0.7))
        )
        seen = torch.nn.functional.gelu(torch.full((2, NODES, expansion * HIDDEN), 0.7))
        value, gate = layer.update.update(seen).chunk(2, dim=-1)
        torch.testing.assert_close(layer(h, edges), h + torch.sigmoid(gate) * (value - h))


def test_gradients_reach_every_parameter(network: GraphAttention, seeded: Seeded) -> None:
    kept, ctx = inputs(seeded)
    network(kept, ctx).square().sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_wrong_input(network: GraphAttention) -> None:
    with pytest.raises(InputError, match="needs a GraphContext, not a SetContext"):
        network(torch.zeros(1, 2, 2), SetContext(1, 2))
    with pytest.raises(InputError, match="The context has no adjacency"):
        network(torch.zeros(1, 2, 2), GraphContext(1, 2, features=torch.zeros(1, 2, 3)))
    with pytest.raises(InputError, match="hidden is 6"):
        GraphAttention(1, 1, hidden=6)
