"""Nodes of a graph transformed in rounds, those of many neighbours first when sampling."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from catnf.context import Context, GraphContext
from catnf.errors import InputError
from catnf.flows.coupling import MixtureCoupling
from catnf.flows.masks import WholeMask
from catnf.flows.transform import Transform

FLAGS = 2
"""Features that tell a conditioner the nodes of this round, and those of the rounds before."""

_MODULUS = (1 << 31) - 1


def node_ranks(adjacency: Tensor) -> Tensor:
    """A number for every node, `[batch, nodes]`: large with many neighbours, or with many of those.

    Further ties are broken by a hash of the surroundings. All is done in integers, whose sums do not depend
    on the order of nodes: relabelled graphs give relabelled numbers, and nodes that no relabelling could tell
    apart have the same one.

    Args:
        adjacency: `[batch, nodes, nodes]`, true where there is an edge.
    """

    def over_neighbours(values: Tensor) -> Tensor:
        return torch.where(adjacency, values.unsqueeze(1), 0).sum(-1)

    degree = adjacency.sum(-1)
    code = degree * 7919 + 13
    for _ in range(4):
        mixed = (code * 48271 + 11) % _MODULUS
        mixed = mixed * (mixed % 65521 + 1) % _MODULUS
        code = (code * 31 + over_neighbours(mixed)) % _MODULUS
    # Beyond 2^16 neighbours' neighbours the order would be another one, and still the same for all labels.
    return (degree * (1 << 16) + over_neighbours(degree).clamp(max=(1 << 16) - 1)) * (1 << 31) + code


def plan_rounds(adjacency: Tensor, most: int, free: int, ties: Tensor | None = None) -> Tensor:
    """In which round every node is decided, from 0: `[batch, nodes]`, below `most`.

    A node waits for every node of higher rank that is its neighbour, and for those with which it shares a
    neighbour of lower rank than both that could be left without a color. So nodes of a round are not adjacent
    and do not take a choice from each other's undecided neighbours. Nodes of equal rank look alike from
    everywhere, and yet they must not clash: `ties` puts them in order.

    Args:
        adjacency: `[batch, nodes, nodes]`, true where there is an edge.
        most: rounds at most; nodes that would need more share the last one.
        free: nodes of at most so many neighbours always find a color.
        ties: `[batch, nodes]`, larger for the higher of two nodes of equal rank; by default those that are
            given first.
    """
    rank = node_ranks(adjacency)
    if ties is None:
        ties = -torch.arange(rank.shape[1], device=rank.device).expand_as(rank)
    equal = rank.unsqueeze(1) == rank.unsqueeze(2)
    ahead = ties.unsqueeze(1) > ties.unsqueeze(2)
    higher = (rank.unsqueeze(1) > rank.unsqueeze(2)) | (equal & ahead)  # [batch, node, other]
    tight = adjacency & higher.mT & (adjacency.sum(-1) > free).unsqueeze(1)
    shared = tight.float() @ tight.float().mT > 0
    waits = (adjacency | shared) & higher
    plan = torch.zeros_like(rank, dtype=torch.int32)
    for _ in range(most - 1):
        plan = torch.where(waits, plan.unsqueeze(1) + 1, 0).amax(-1)
    return plan


class RoundPlan(nn.Module):
    """`plan_rounds` as a module, so that it can be compiled: it is many small operations.

    Args:
        free: nodes of at most so many neighbours always find a color.
    """

    compile_unit = True

    def __init__(self, free: int) -> None:
        super().__init__()
        self.free = free

    def forward(self, adjacency: Tensor, most: int, ties: Tensor | None) -> Tensor:
        """The round of every node, `[batch, nodes]`."""
        return plan_rounds(adjacency, most, self.free, ties)


class RoundStep(Transform):
    """A mixture coupling of the nodes whose round it is, given those of earlier rounds.

    Args:
        network: a conditioner of `channels` inputs and of the features of nodes, the last `FLAGS` of which
            tell whose round it is.
        channels: latent channels. They are transformed independently, so one is best: two or more cannot be
            at any of several places.
        mixtures: logistics in a mixture.
    """

    compile_unit = True

    def __init__(self, network: nn.Module, channels: int, mixtures: int) -> None:
        super().__init__()
        self.network = network
        self.coupling = MixtureCoupling(None, channels, WholeMask(), mixtures)

    def forward(self, z: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        now, predicted, turn = self._predict(z, ctx)
        new, logdet = self.coupling.change(z, predicted, turn)
        return torch.where(now, new, z), logdet

    def inverse(self, z: Tensor, ctx: Context) -> Tensor:
        now, predicted, turn = self._predict(z, ctx)
        if z.is_cuda:  # where shapes must not depend on the round
            return torch.where(now, self.coupling.restore(z, predicted, turn), z)
        chosen = now.squeeze(-1)
        some, given = z[chosen].unsqueeze(0), predicted[chosen].unsqueeze(0)
        restored = self.coupling.restore(some, given, Context(1, some.shape[1]))
        return z.masked_scatter(now.expand_as(z), restored)

    def _predict(self, z: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Context]:
        """Whose round it is, what the network predicts, and a context where all others are padding."""
        assert ctx.features is not None
        now, before = (ctx.features[..., -FLAGS:] > 0).split(1, dim=-1)
        predicted: Tensor = self.network(torch.where(before, z, 0.0), ctx)
        return now, predicted, replace(ctx, mask=now.squeeze(-1))


class Rounds(Transform):
    """Every node is transformed once, in the rounds of `plan_rounds`, by the same step.

    Sampling decides nodes of high rank first, as a person would color a graph. A round depends on the latents
    of earlier ones alone, before they are transformed: the likelihood is a sum over rounds that can be
    computed in any order, or for some of them only, see `one_turn`.

    Args:
        step: transforms the nodes of a round.
        rounds: their number for graphs of up to `nodes` nodes; larger graphs get as many as they need.
        nodes: the most nodes of a graph in training.
        free: nodes of at most so many neighbours always find a category, see `plan_rounds`.
    """

    def __init__(self, step: RoundStep, rounds: int, nodes: int, free: int) -> None:
        super().__init__()
        self.step = step
        self.plan = RoundPlan(free)
        self.rounds, self.nodes = rounds, nodes

    def forward(self, z: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        logdet = torch.zeros_like(ctx.counts(z))
        for turn in reversed(self._turns(ctx)):
            z, change = self.step(z, turn)
            logdet = logdet + change
        return z, logdet

    def inverse(self, z: Tensor, ctx: Context) -> Tensor:
        for turn in self._turns(ctx):
            z = self.step.inverse(z, turn)
        return z

    def one_turn(self, ctx: GraphContext, node: Tensor) -> GraphContext:
        """The context of the round of `node: [batch]` in each graph, with the nodes of it as its mask.

        `step` takes it as one of its rounds, graphs being in different ones.
        """
        plan, _ = self._plan(ctx)
        turn = plan.gather(1, node.unsqueeze(1))
        return replace(_turn(ctx, plan, turn), mask=plan == turn)

    def _turns(self, ctx: Context) -> list[GraphContext]:
        """The context of every round."""
        if not isinstance(ctx, GraphContext):
            raise InputError(f"Rounds need a GraphContext, not a {type(ctx).__name__}.")
        plan, rounds = self._plan(ctx)
        return [_turn(ctx, plan, turn) for turn in range(rounds)]

    def _plan(self, ctx: GraphContext) -> tuple[Tensor, int]:
        """The round of every node, `[batch, nodes]`, and their number, which is the round of padding."""
        large = ctx.elements > self.nodes
        plan: Tensor = self.plan(ctx.edges, ctx.elements if large else self.rounds, ctx.ties)
        # To ask how many are needed would make a GPU wait, and graphs of training are many at once anyway.
        rounds = int(plan.max()) + 1 if large or not plan.is_cuda else self.rounds
        return (plan if ctx.mask is None else torch.where(ctx.mask, plan, rounds)), rounds


def _turn(ctx: GraphContext, plan: Tensor, turn: Tensor | int) -> GraphContext:
    """The context of round `turn`, its last features being flags of the nodes in it and of those before."""
    flags = torch.stack([plan == turn, plan < turn], dim=-1)
    return ctx.with_features(flags if ctx.features is None else torch.cat([ctx.features, flags], dim=-1))
