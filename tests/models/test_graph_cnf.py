"""GraphCNF: its joint flows are invertible and blind to order and padding, and its probabilities sum to 1."""

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from catnf.context import Context, JointContext
from catnf.encodings import MixtureEncoding
from catnf.encodings.virtual import VirtualEdges
from catnf.errors import InputError
from catnf.flows.joint import GraphLatents, JointFlow, JointSizes, JointStep
from catnf.flows.step import mixture_steps
from catnf.models.graph_cnf import GraphCNF
from catnf.models.graph_model import GraphModel, find_bonds
from catnf.nets.edge_gnn import EdgeGNN, EdgeLayer
from catnf.nets.rgcn import RelationalGCN, RelationalLayer
from catnf.pairs import node_count, pair_count, pair_index, pair_layout, sum_of_ends, to_matrix
from catnf.training.step import compile_units

SIZES = JointSizes(node_channels=4, edge_channels=2, node_mixtures=3, edge_mixtures=3)


def joint_flow(all_pairs: bool, steps: int = 2) -> JointFlow:
    return JointFlow(
        JointStep(SIZES, EdgeGNN(SIZES.inputs, SIZES.outputs, 16, 8, 2, 2, all_pairs)) for _ in range(steps)
    )


def graph_cnf(categories: int = 3, kinds: int = 2, largest: int = 5, slots: int = 6) -> GraphCNF:
    sizes = torch.ones(largest + 1)
    sizes[:2] = 0.0
    return GraphCNF(
        MixtureEncoding(torch.full((categories,), 1 / categories), SIZES.node_channels),
        MixtureEncoding(torch.full((kinds,), 1 / kinds), SIZES.edge_channels),
        VirtualEdges(SIZES.edge_channels),
        mixture_steps(SIZES.node_channels, 2, 3, lambda i, o: RelationalGCN(i, o, kinds, 16, 2)),
        joint_flow(False),
        joint_flow(True),
        slots,
        sizes / sizes.sum(),
    )


def stir(module: torch.nn.Module, amount: float = 0.3) -> None:
    """Move parameters away from their start, where couplings do nothing."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(amount * torch.randn(parameter.shape, generator=generator) / math.sqrt(8))


def graphs(batch: int, ctx: Context, categories: int = 3, kinds: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    pairs = ctx.pairs()
    nodes = torch.randint(categories, (batch, ctx.elements), generator=generator)
    kind = torch.randint(1, kinds + 1, (batch, pairs.elements), generator=generator)
    kept = torch.rand(batch, pairs.elements, generator=generator) < 0.4
    return torch.cat([ctx.hide(nodes), pairs.hide(kind * kept)], dim=1)


def context(batch: int, nodes: int) -> Context:
    sizes = torch.arange(batch) % (nodes - 1) + 2
    return Context(batch, nodes, torch.arange(nodes) < sizes.unsqueeze(1))


def joint(all_pairs: bool, batch: int, nodes: int) -> tuple[JointContext, GraphLatents]:
    ctx = context(batch, nodes)
    if all_pairs:
        given = JointContext(ctx, ctx.pairs())
    else:
        model = graph_cnf(largest=nodes, slots=pair_count(nodes))
        given = find_bonds(graphs(batch, ctx)[:, nodes:].float(), ctx, model.slots).joint
    generator = torch.Generator().manual_seed(1)
    nodes_z = torch.randn(batch, nodes, SIZES.node_channels, generator=generator)
    edges_z = torch.randn(batch, given.edges.elements, SIZES.edge_channels, generator=generator)
    return given, GraphLatents(ctx.hide(nodes_z), given.edges.hide(edges_z))


def double(ctx: JointContext) -> JointContext:
    incidence = None if ctx.incidence is None else ctx.incidence.double()
    return JointContext(ctx.nodes, ctx.edges, incidence)


@pytest.mark.parametrize("nodes", [2, 3, 7])
def test_layout_of_pairs(nodes: int) -> None:
    layout = pair_layout(nodes)
    expected = list(itertools.combinations(range(nodes), 2))
    assert list(zip(layout.first.tolist(), layout.second.tolist(), strict=True)) == expected
    assert node_count(len(expected)) == nodes
    assert pair_index(layout.first, layout.second, nodes).tolist() == list(range(pair_count(nodes)))
    for place, (i, j) in enumerate(expected):
        assert layout.matrix[i, j] == layout.matrix[j, i] == place


def test_moving_between_nodes_and_pairs_has_right_gradients() -> None:
    layout = pair_layout(4)
    pairs = torch.randn(2, 6, 3, dtype=torch.float64, requires_grad=True)
    nodes = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: to_matrix(v, layout), (pairs,))
    assert torch.autograd.gradcheck(lambda v: sum_of_ends(v, layout), (nodes,))
    matrix = to_matrix(pairs, layout)
    assert torch.equal(matrix, matrix.transpose(1, 2))
    assert torch.equal(matrix.diagonal(dim1=1, dim2=2), torch.zeros(2, 3, 4))
    assert torch.autograd.gradcheck(lambda v: to_matrix(v, layout, spare=2), (pairs,))
    assert torch.equal(to_matrix(pairs, layout, spare=2), F.pad(matrix, (0, 0, 0, 2)))


@pytest.mark.parametrize("all_pairs", [False, True])
def test_spare_nodes_of_products_change_nothing(all_pairs: bool) -> None:
    torch.manual_seed(0)
    ctx, _ = joint(all_pairs, batch=3, nodes=5)
    layer = EdgeLayer(nodes=16, edges=8, heads=2, all_pairs=all_pairs).double()
    layout = pair_layout(5) if all_pairs else None
    v = torch.randn(3, 5, 16, dtype=torch.float64)
    e = torch.randn(3, ctx.edges.elements, 8, dtype=torch.float64)
    for plain, padded in zip(
        layer.update(v, e, ctx, layout, 0), layer.update(v, e, ctx, layout, 3), strict=True
    ):
        torch.testing.assert_close(padded, plain)


def test_spare_columns_of_relations_change_nothing() -> None:
    torch.manual_seed(0)
    layer = RelationalLayer(hidden=16, relations=2)
    h, relations = torch.randn(3, 5, 16), torch.rand(3, 5, 10)
    torch.testing.assert_close(layer(h, F.pad(relations, (0, 6))), layer(h, relations))


@pytest.mark.parametrize("all_pairs", [False, True])
def test_joint_flow_is_invertible_with_its_jacobian(all_pairs: bool) -> None:
    torch.manual_seed(0)
    flow = joint_flow(all_pairs).double()
    stir(flow)
    ctx, z = joint(all_pairs, batch=3, nodes=4)
    ctx, z = double(ctx), GraphLatents(z.nodes.double(), z.edges.double())
    out, logdet = flow(z, ctx)
    logdet = logdet.detach()
    back = flow.inverse(out, ctx)
    assert torch.allclose(back.nodes, z.nodes, atol=1e-5)
    assert torch.allclose(back.edges, z.edges, atol=1e-5)
    for example in range(3):
        parts = [z.nodes[example].flatten(), z.edges[example].flatten()]
        real_nodes = ctx.nodes.mask[example].repeat_interleave(SIZES.node_channels)  # type: ignore[index]
        real = torch.cat([real_nodes, _real(ctx.edges, example)])

        def mapped(flat: Tensor, example: int = example) -> Tensor:
            nodes, edges = z.nodes.clone(), z.edges.clone()
            split = nodes[example].numel()
            nodes[example] = flat[:split].view_as(nodes[example])
            edges[example] = flat[split:].view_as(edges[example])
            new, _ = flow(GraphLatents(nodes, edges), ctx)
            return torch.cat([new.nodes[example].flatten(), new.edges[example].flatten()])

        jacobian = torch.autograd.functional.jacobian(mapped, torch.cat(parts))
        assert torch.linalg.slogdet(jacobian[real][:, real])[1] == pytest.approx(
            float(logdet[example]), abs=1e-4
        )


def _real(edges: Context, example: int) -> Tensor:
    assert edges.mask is not None
    return edges.mask[example].repeat_interleave(SIZES.edge_channels)


def permuted(x: Tensor, order: Tensor, nodes: int) -> Tensor:
    """Graphs `[batch, nodes + pairs, ...]` whose node `i` is node `order[i]` of `x`."""
    layout = pair_layout(nodes)
    places = layout.matrix[order[layout.first], order[layout.second]]
    return torch.cat([x[:, order], x[:, nodes + places]], dim=1)


def test_the_order_of_nodes_means_nothing() -> None:
    torch.manual_seed(0)
    model = graph_cnf().double()
    stir(model)
    ctx = Context(6, 5)
    x = graphs(6, ctx)
    order = torch.tensor([3, 0, 4, 1, 2])
    moved = permuted(x, order, 5)
    every = JointContext(ctx, ctx.pairs())
    nodes = torch.randn(6, 5, SIZES.node_channels, dtype=torch.float64)
    pairs = torch.randn(6, 10, SIZES.edge_channels, dtype=torch.float64)
    places = permuted(torch.arange(15).view(1, -1, 1), order, 5)[0, 5:, 0] - 5
    out, logdet = model.pair_flow(GraphLatents(nodes, pairs), every)
    other, change = model.pair_flow(GraphLatents(nodes[:, order], pairs[:, places]), every)
    assert torch.allclose(other.nodes, out.nodes[:, order])
    assert torch.allclose(other.edges, out.edges[:, places])
    assert torch.allclose(change, logdet)
    # Given edges: both graphs with their edges in the same slots.
    bonds = find_bonds(x[:, 5:].double() + torch.rand(6, 10) * (x[:, 5:] > 0), ctx, model.slots)
    incidence = bonds.joint.incidence
    assert incidence is not None
    edges = bonds.joint.edges.hide(torch.randn(6, bonds.place.shape[1], 2, dtype=torch.float64))
    out, logdet = model.edge_flow(GraphLatents(nodes, edges), double(bonds.joint))
    turned = JointContext(ctx, bonds.joint.edges, incidence[..., order].flip(1).double())
    other, change = model.edge_flow(GraphLatents(nodes[:, order], edges), turned)
    assert torch.allclose(other.nodes, out.nodes[:, order])
    assert torch.allclose(other.edges, out.edges)
    assert torch.allclose(change, logdet)
    first, logdet = model.node_flow(nodes, model._relational(x[:, 5:], ctx))
    second, change = model.node_flow(nodes[:, order], model._relational(moved[:, 5:], ctx))
    assert torch.allclose(second, first[:, order])
    assert torch.allclose(change, logdet)


def test_padding_changes_nothing() -> None:
    torch.manual_seed(0)
    model = graph_cnf().double()
    stir(model)
    small, large = Context(4, 3), Context(4, 5, torch.arange(5).repeat(4, 1) < 3)
    x = graphs(4, small)
    wide = torch.zeros(4, 15, dtype=torch.int64)
    layout = pair_layout(3)
    places = pair_index(layout.first, layout.second, 5)
    wide[:, :3] = x[:, :3]
    wide[:, 5 + places] = x[:, 3:]
    nodes = torch.randn(4, 3, SIZES.node_channels, dtype=torch.float64)
    pairs = torch.randn(4, 3, SIZES.edge_channels, dtype=torch.float64)
    more = GraphLatents(torch.zeros(4, 5, 4).double(), torch.zeros(4, 10, 2).double())
    more.nodes[:, :3], more.edges[:, places] = nodes, pairs
    out, logdet = model.pair_flow(GraphLatents(nodes, pairs), JointContext(small, small.pairs()))
    wider, change = model.pair_flow(more, JointContext(large, large.pairs()))
    assert torch.allclose(wider.nodes[:, :3], out.nodes)
    assert torch.allclose(wider.edges[:, places], out.edges)
    assert torch.allclose(change, logdet)
    decoded = model.decode(GraphLatents(nodes, pairs), small)
    padded = model.decode(more, large)
    assert torch.equal(padded[:, :3], decoded[:, :3])
    assert torch.equal(padded[:, 5 + places], decoded[:, 3:])
    assert int(padded[:, 3:5].sum()) == 0


@pytest.mark.slow
def test_probabilities_of_all_small_graphs_sum_to_one(sum_to_one: Callable[[GraphModel], None]) -> None:
    torch.manual_seed(0)
    sum_to_one(graph_cnf(categories=2, kinds=2, largest=3, slots=3))


def test_samples_have_the_sizes_asked_for() -> None:
    torch.manual_seed(0)
    model = graph_cnf(largest=7)
    ctx = context(20, 7)
    x = model.sample(ctx, torch.Generator().manual_seed(0))
    model.check(x, ctx)
    assert torch.equal(x, torch.cat([ctx.hide(x[:, :7]), ctx.pairs().hide(x[:, 7:])], dim=1))
    assert int(x[:, :7].max()) == 2
    alike = [model.sample(context(500, 7), torch.Generator().manual_seed(seed)) for seed in (1, 2)]
    means = [float(x.double().mean()) for x in alike]
    assert means[0] == pytest.approx(means[1], abs=0.03)


def test_gradients_reach_every_parameter() -> None:
    torch.manual_seed(0)
    model = graph_cnf()
    stir(model, 0.1)
    ctx = context(8, 5)
    model.loss(graphs(8, ctx), ctx, torch.Generator().manual_seed(0))[0].backward()
    missing = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().any()]
    assert missing == []


def test_sizes_are_drawn_as_often_as_they_occur() -> None:
    model = graph_cnf(largest=4)
    ctx = model.draw_context(30_000, torch.Generator().manual_seed(0))
    sizes = torch.bincount(ctx.counts(torch.zeros(1)).long(), minlength=5).double() / 30_000
    assert sizes.tolist() == pytest.approx([0.0, 0.0, 1 / 3, 1 / 3, 1 / 3], abs=0.02)


def test_graphs_the_model_cannot_have_made_are_refused() -> None:
    model, ctx = graph_cnf(slots=2), Context(1, 4)
    with pytest.raises(InputError, match=r"shape \(1, 9\)"):
        model.check(torch.zeros(1, 9, dtype=torch.int64), ctx)
    x = torch.zeros(1, 10, dtype=torch.int64)
    x[0, 4:7] = 1
    with pytest.raises(InputError, match="3 edges; this model knows graphs of up to 2"):
        model.check(x, ctx)
    x[0, 4] = 3
    with pytest.raises(InputError, match="Category 3"):
        model.check(x, ctx)


@pytest.mark.slow
def test_compiled_in_parts_equals_eager() -> None:
    torch.manual_seed(0)
    flow = joint_flow(all_pairs=True)
    stir(flow)
    ctx, z = joint(True, batch=3, nodes=4)
    out, logdet = flow(z, ctx)
    back = flow.inverse(out, ctx)
    compile_units(flow)
    compiled, change = flow(z, ctx)
    again = flow.inverse(out, ctx)
    assert torch.allclose(change, logdet, atol=1e-4)
    for one, other in ((compiled, out), (again, back)):
        assert torch.allclose(one.nodes, other.nodes, atol=1e-4)
        assert torch.allclose(one.edges, other.edges, atol=1e-4)
