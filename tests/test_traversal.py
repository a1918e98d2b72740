"""Graphs told by the steps of a walk, and built from them again."""

from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor

from catnf.traversal import FEATURES, SIGHT, Attach, CloseRing, DescribePath, begin_path, traverse

Seeded = Callable[[int], torch.Generator]
BATCH, NODES = 64, 12


def random_graphs(seeded: Seeded, share: float) -> tuple[Tensor, Tensor]:
    """Graphs of 2 to 12 nodes, many of them in pieces."""
    upper = torch.triu(torch.rand(BATCH, NODES, NODES, generator=seeded(0)) < share, 1)
    present = torch.arange(NODES) < torch.randint(2, NODES + 1, (BATCH, 1), generator=seeded(1))
    return (upper | upper.mT) & present.unsqueeze(1) & present.unsqueeze(2), present


def build(steps: Tensor, present: Tensor) -> Tensor:
    """The graphs of steps, in their order of nodes; every step must be an allowed one."""
    batch, nodes, slots = steps.shape
    attach, close, describe = Attach(), CloseRing(), DescribePath(nodes + 1)
    path = begin_path(batch, nodes + 1, steps.device)
    edges = torch.zeros(batch, nodes, nodes + 1, dtype=torch.bool)  # a last place for no edge
    for place in range(nodes):
        real = present.sum(1) > place
        before = None
        for slot in range(slots):
            features, allowed = describe(path, before)
            assert features.shape == (batch, FEATURES)
            step = steps[:, place, slot]
            assert allowed.gather(1, step.unsqueeze(1))[real].all()
            path, other = attach(path, step, torch.tensor(place)) if slot == 0 else close(path, step)
            edges[torch.arange(batch), place, torch.where(real, other, -1)] = True
            before = step if slot else torch.full_like(step, -1)
    return edges[..., :-1] | edges[..., :-1].mT


def test_steps_tell_the_whole_graph(seeded: Seeded) -> None:
    for share in (0.1, 0.2, 0.5):
        adjacency, present = random_graphs(seeded, share)
        order, steps, _, told = traverse(adjacency, present, int(adjacency.sum(-1).max()), seeded(2))
        assert told.all()
        assert torch.equal(order.sort(1).values, torch.arange(NODES).expand(BATCH, -1))
        assert torch.equal(present.gather(1, order), present), "padding comes last"
        rows = adjacency.gather(1, order.unsqueeze(2).expand(-1, -1, NODES))
        in_order = rows.gather(2, order.unsqueeze(1).expand(-1, NODES, -1))
        assert torch.equal(build(steps, present), in_order)


def test_steps_by_hand() -> None:
    ring = torch.roll(torch.eye(5, dtype=torch.bool), 1, dims=1)
    ring = (ring | ring.mT).unsqueeze(0)
    everywhere = torch.ones(1, 5, dtype=torch.bool)
    _, steps, log_chance, told = traverse(ring, everywhere, 2, None)
    assert told.all()
    assert not traverse(ring, everywhere, 1, None).told.any(), "one step does not close a ring"
    assert steps[0].tolist() == [[0, 0], [1, 0], [1, 0], [1, 0], [1, 3]], "the last one closes a ring of five"
    torch.testing.assert_close(log_chance.exp(), torch.tensor([1 / 10]))
    star = torch.zeros(1, 4, 4, dtype=torch.bool)
    star[0, 0, 1:] = star[0, 1:, 0] = True
    for seed in range(10):
        order, steps, *_ = traverse(star, everywhere[:, :4], 3, torch.Generator().manual_seed(seed))
        hub = order[0].tolist().index(0)
        assert hub < 2, "who starts at a leaf comes to the hub next"
        assert steps[0, :, 0].tolist() == ([0, 1, 2, 2] if hub == 0 else [0, 1, 1, 2])
    assert traverse(star[:, :2, :2], everywhere[:, :2], 4, None).steps.tolist() == [[[0] * 4, [1, 0, 0, 0]]]
    apart = torch.zeros(1, 3, 3, dtype=torch.bool)
    assert traverse(apart, everywhere[:, :3], 2, None).steps.sum() == 0, "every node is a piece of its own"


def test_orders_come_as_often_as_they_say(seeded: Seeded) -> None:
    adjacency = torch.zeros(1, 4, 4, dtype=torch.bool)
    for one, other in ((0, 1), (1, 2), (1, 3), (2, 3)):
        adjacency[0, one, other] = adjacency[0, other, one] = True
    draws = 20_000
    present = torch.ones(draws, 4, dtype=torch.bool)
    order, _, log_chance, _ = traverse(adjacency.expand(draws, -1, -1), present, 3, seeded(3))
    said = {
        tuple(nodes): value for nodes, value in zip(order.tolist(), log_chance.exp().tolist(), strict=True)
    }
    assert abs(sum(said.values()) - 1.0) < 1e-5
    for nodes, count in Counter(map(tuple, order.tolist())).items():
        assert abs(count / draws - said[nodes]) < 5 * (said[nodes] / draws) ** 0.5


def test_a_path_is_described_from_its_end() -> None:
    attach, close, describe = Attach(), CloseRing(), DescribePath(8)
    path = begin_path(1, 8, torch.device("cpu"))
    for place, step in enumerate([0, 1, 1, 1]):
        path, _ = attach(path, torch.tensor([step]), torch.tensor(place))
    path, end = close(path, torch.tensor([1]))
    assert end.tolist() == [1], "two edges up from the fourth node is the second one"
    features, allowed = describe(path, None)
    one, two, three, more, ring, rings = features.view(6, SIGHT)[:, :5].tolist()
    assert one == [0, 0, 0, 1, 0]
    assert two == [1, 1, 0, 0, 0]
    assert three == [0, 0, 1, 0, 0]
    assert ring == [1, 1, 0, 0, 0], "the edges from the end to the second node"
    assert more == rings == [0, 0, 0, 0, 0]
    assert allowed[0].tolist() == [True] * 5 + [False] * 3, "a new piece, or up to the first node"
    assert describe(path, torch.tensor([1]))[1][0].tolist() == [True, False, True] + [False] * 5
    assert describe(path, torch.tensor([0]))[1][0].tolist() == [True] + [False] * 7
