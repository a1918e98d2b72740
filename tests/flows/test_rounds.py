"""Rounds in which the nodes of a graph are transformed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.functional import jacobian

from catnf.context import Context, GraphContext, SetContext
from catnf.errors import InputError
from catnf.flows import Rounds, RoundStep
from catnf.flows.category_coupling import CategoryCoupling
from catnf.flows.coupling import MixtureCoupling
from catnf.flows.masks import WholeMask
from catnf.flows.rounds import FLAGS
from catnf.flows.turns import node_ranks
from catnf.nets import GraphAttention

Seeded = Callable[[int], torch.Generator]
BATCH, NODES, COLORS, MIXTURES = 4, 7, 3, 3


def graphs(seeded: Seeded, batch: int = BATCH, nodes: int = NODES, share: float = 0.4) -> Tensor:
    upper = torch.triu(torch.rand(batch, nodes, nodes, generator=seeded(1)) < share, 1)
    return upper | upper.mT


def colors(z: Tensor, ctx: Context) -> Tensor:
    """Latents below -0.5, above 0.5, and between."""
    return (z[..., 0] > -0.5).long() + (z[..., 0] > 0.5).long()


def plan_rounds(adjacency: Tensor, most: int, ties: Tensor | None = None, x: Tensor | None = None) -> Tensor:
    batch, nodes = adjacency.shape[:2]
    read = None if x is None else lambda z, ctx: x
    flow = Rounds(RoundStep(nn.Identity(), mixture_coupling(1)), most, nodes, COLORS - 1, read=read)
    ctx = GraphContext(batch, nodes, adjacency=adjacency, ties=ties)
    return flow.plan(torch.zeros(batch, nodes, 1), ctx)


def rounds_of(edges: list[tuple[int, int]], nodes: int, most: int = 10) -> list[int]:
    adjacency = torch.zeros(1, nodes, nodes, dtype=torch.bool)
    for one, other in edges:
        adjacency[0, one, other] = adjacency[0, other, one] = True
    return plan_rounds(adjacency, most)[0].tolist()


def mixture_coupling(mixtures: int) -> MixtureCoupling:
    return MixtureCoupling(None, 1, WholeMask(), mixtures)


@pytest.fixture(params=["by rank", "by choices", "of categories"])
def flow(request: pytest.FixtureRequest, perturb: Callable[..., Rounds]) -> Rounds:
    read, features = (colors, COLORS + FLAGS) if request.param == "by choices" else (None, FLAGS)
    if request.param == "of categories":
        network = GraphAttention(COLORS, COLORS, features, hidden=8, layers=2, heads=2)
        step = RoundStep(network, CategoryCoupling(COLORS))
    else:
        network = GraphAttention(1, 2 + 3 * MIXTURES, features, hidden=8, layers=2, heads=2)
        step = RoundStep(network, mixture_coupling(MIXTURES))
    return perturb(Rounds(step, 5, NODES, COLORS - 1, 3, read))


def test_neighbours_have_different_rounds_and_high_degrees_come_first(seeded: Seeded) -> None:
    adjacency = graphs(seeded, batch=50, nodes=20, share=0.2)
    plan, degree = plan_rounds(adjacency, 20), adjacency.sum(-1)
    same = plan.unsqueeze(1) == plan.unsqueeze(2)
    assert not (adjacency & same).any()
    later = plan.unsqueeze(2) > plan.unsqueeze(1)  # [batch, node, other]: the node comes after the other
    assert (degree.unsqueeze(2) <= degree.unsqueeze(1))[adjacency & later].all()


def test_every_node_but_the_first_waits_for_one_of_the_round_before(seeded: Seeded) -> None:
    plan = plan_rounds(graphs(seeded, batch=20, nodes=15), 15)
    for rounds in plan:
        assert sorted(set(rounds.tolist())) == list(range(int(rounds.max()) + 1))


def test_small_graphs_by_hand() -> None:
    assert rounds_of([(0, 1), (1, 2)], 3) == [1, 0, 1]  # the middle first; its ends wait for it alone
    assert rounds_of([], 2) == [0, 0]
    assert rounds_of([(0, 1), (1, 2), (2, 0)], 3) == [0, 1, 2]  # all alike, in the order they are given
    # Two hubs around three common neighbours: those have two neighbours and always find a color.
    hubs = [(0, 2), (0, 3), (0, 4), (1, 2), (1, 3), (1, 4), (0, 5), (1, 6), (1, 7)]
    assert rounds_of(hubs, 8)[:2] == [0, 0]
    # With a third neighbour they might not, so one hub waits for the other.
    assert rounds_of([*hubs, (2, 6)], 8)[:2] == [1, 0]


def test_rounds_do_not_depend_on_padding(flow: Rounds, seeded: Seeded) -> None:
    """Not even where it is so much that larger graphs may have more rounds."""
    flow.rounds = 2
    adjacency = graphs(seeded, share=0.6)
    ctx = GraphContext.of(adjacency)
    z = torch.randn(BATCH, NODES, 1, generator=seeded(3))
    more = GraphContext.of(
        torch.nn.functional.pad(adjacency, (0, 3, 0, 3)), torch.arange(NODES + 3).expand(BATCH, -1) < NODES
    )
    longer = torch.nn.functional.pad(z, (0, 0, 0, 3))
    assert torch.equal(flow.plan(longer, more)[:, :NODES], flow.plan(z, ctx))
    (out, logdet), (padded, other) = flow(z, ctx), flow(longer, more)
    torch.testing.assert_close(padded[:, :NODES], out)
    torch.testing.assert_close(other, logdet)
    torch.testing.assert_close(flow.inverse(longer, more)[:, :NODES], flow.inverse(z, ctx))


def test_ties_put_nodes_that_look_alike_in_order() -> None:
    triangle = ~torch.eye(3, dtype=torch.bool).unsqueeze(0)
    assert plan_rounds(triangle, 3, torch.tensor([[0.1, 0.9, 0.5]])).tolist() == [[2, 0, 1]]


def test_nodes_with_one_choice_left_come_next_and_all_at_once() -> None:
    # A wheel: the hub first, then one node of the rim, and the others as soon as two colors are around them.
    rim = [(i, i % 6 + 1) for i in range(1, 7)]
    adjacency = torch.zeros(1, 7, 7, dtype=torch.bool)
    for one, other in rim + [(0, i) for i in range(1, 7)]:
        adjacency[0, one, other] = adjacency[0, other, one] = True
    x = torch.tensor([[0, 1, 2, 1, 2, 1, 2]])
    assert plan_rounds(adjacency, 7, x=x).tolist() == [[0, 1, 2, 3, 4, 3, 2]]


def test_choices_leave_nobody_without_a_turn(seeded: Seeded) -> None:
    adjacency = graphs(seeded, batch=50, nodes=15, share=0.3)
    x = torch.randint(COLORS, (50, 15), generator=seeded(2))
    plan = plan_rounds(adjacency, 15, x=x)
    for rounds in plan:
        assert sorted(set(rounds.tolist())) == list(range(int(rounds.max()) + 1))
    # Neighbours share a round only where both have a single choice left.
    same = (plan.unsqueeze(1) == plan.unsqueeze(2)) & adjacency
    before = adjacency & (plan.unsqueeze(1) < plan.unsqueeze(2))
    seen = sum((before & (x == color).unsqueeze(1)).any(-1).int() for color in range(COLORS))
    assert (seen >= COLORS - 1)[same.any(-1)].all()


def test_rounds_at_most(seeded: Seeded) -> None:
    adjacency = graphs(seeded, batch=20, nodes=15)
    free, capped = plan_rounds(adjacency, 15), plan_rounds(adjacency, 3)
    assert int(free.max()) > 2
    assert torch.equal(free.clamp(max=2), capped)


def test_relabelled_nodes_have_relabelled_ranks_and_rounds(seeded: Seeded) -> None:
    adjacency = graphs(seeded, batch=40, nodes=15)
    rank = node_ranks(adjacency)
    distinct = torch.tensor([len(set(row)) == 15 for row in rank.tolist()])
    assert distinct.float().mean() > 0.8, "most graphs have no two nodes that look alike"
    order = torch.randperm(15, generator=seeded(2))
    other = adjacency[:, order][:, :, order]
    assert torch.equal(node_ranks(other), rank[:, order])
    plan, again = (plan_rounds(graph[distinct], 15) for graph in (adjacency, other))
    assert torch.equal(again, plan[:, order])


def test_inverse(flow: Rounds, seeded: Seeded) -> None:
    ctx = GraphContext.of(graphs(seeded))
    z = torch.randn(BATCH, NODES, 1, generator=seeded(3))
    with torch.no_grad():
        out, logdet = flow(z, ctx)
        assert (out - z).abs().min() > 1e-4, "every node has its turn"
        assert logdet.shape == (BATCH,)
        torch.testing.assert_close(flow.inverse(out, ctx), z, rtol=1e-3, atol=2e-4)
        torch.testing.assert_close(flow(flow.inverse(z, ctx), ctx)[0], z, rtol=1e-3, atol=2e-4)


def test_log_determinant_is_that_of_the_jacobian(flow: Rounds, seeded: Seeded) -> None:
    flow.double()
    adjacency = graphs(seeded)
    z = torch.randn(BATCH, NODES, 1, generator=seeded(3), dtype=torch.float64)
    logdet = flow(z, GraphContext.of(adjacency))[1]
    for index in range(BATCH):
        one = GraphContext.of(adjacency[index : index + 1])
        matrix = jacobian(lambda v, c=one: flow(v.view(1, NODES, 1), c)[0].flatten(), z[index].flatten())
        torch.testing.assert_close(torch.linalg.slogdet(matrix).logabsdet, logdet[index])


def test_padding_changes_nothing(flow: Rounds, seeded: Seeded) -> None:
    adjacency = graphs(seeded)[:, :5, :5]
    z = torch.randn(BATCH, 5, 1, generator=seeded(3))
    padded = torch.zeros(BATCH, NODES, NODES, dtype=torch.bool)
    padded[:, :5, :5] = adjacency
    mask = (torch.arange(NODES) < 5).expand(BATCH, -1)
    out, logdet = flow(z, GraphContext.of(adjacency))
    more, same = flow(torch.nn.functional.pad(z, (0, 0, 0, 2)), GraphContext.of(padded, mask))
    torch.testing.assert_close(more[:, :5], out)
    torch.testing.assert_close(same, logdet)
    assert (more[:, 5:] == 0).all()


def test_larger_graphs_get_the_rounds_that_they_need(flow: Rounds, seeded: Seeded) -> None:
    ctx = GraphContext.of(graphs(seeded, nodes=30, share=0.15))
    assert int(plan_rounds(ctx.edges, 30).max()) >= flow.rounds
    z = torch.randn(BATCH, 30, 1, generator=seeded(3))
    with torch.no_grad():
        torch.testing.assert_close(flow.inverse(flow(z, ctx)[0], ctx), z, rtol=1e-3, atol=2e-4)


def test_rounds_need_a_graph(flow: Rounds) -> None:
    with pytest.raises(InputError, match="need a GraphContext, not a SetContext"):
        flow(torch.zeros(1, 3, 1), SetContext(1, 3))


def test_one_turn_of_every_graph_is_its_part_of_the_whole(flow: Rounds, seeded: Seeded) -> None:
    ctx = GraphContext.of(graphs(seeded))
    z = torch.randn(BATCH, NODES, 1, generator=seeded(3))
    with torch.no_grad():
        whole, total = flow(z, ctx)
        turns = [flow.one_turn(z, ctx, torch.full((BATCH,), node)) for node in range(NODES)]
        for node, turn in enumerate(turns):
            out, _ = flow.step(z, turn)
            assert turn.mask is not None
            assert turn.mask[:, node].all()
            torch.testing.assert_close(out[turn.mask], whole[turn.mask])
        # A round of several nodes comes once for each of them.
        parts = [flow.step(z, turn)[1] / turn.counts(z) for turn in turns]
        torch.testing.assert_close(torch.stack(parts).sum(0), total)
