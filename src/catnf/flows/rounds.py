"""Nodes of a graph transformed in rounds, those of few choices first when sampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from catnf.context import Context, GraphContext
from catnf.errors import InputError
from catnf.flows.coupling import Coupling
from catnf.flows.transform import Transform
from catnf.flows.turns import NodeOrder, ReadyNodes, Surroundings
from catnf.repetition import Index, counts_on_device, repeat

FLAGS = 2
"""Features that tell a conditioner the nodes of this round, and those of the rounds before."""


class RoundStep(Transform):
    """A coupling of the nodes whose round it is, given those of earlier rounds.

    Args:
        network: a conditioner of what the coupling tells of latents and of the features of nodes, the last
            `FLAGS` of which tell whose round it is.
        coupling: of all channels. They are transformed independently, so one is best: two or more cannot be
            at any of several places.
    """

    compile_unit = True

    def __init__(self, network: nn.Module, coupling: Coupling) -> None:
        super().__init__()
        self.network, self.coupling = network, coupling

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
        now, before = torch.split(ctx.features[..., -FLAGS:] > 0, 1, dim=-1)
        predicted: Tensor = self.network(torch.where(before, self.coupling.describe(z), 0.0), ctx)
        return now, predicted, replace(ctx, mask=now.squeeze(-1))


class Rounds(Transform):
    """Every node is transformed once, in rounds of nodes that are `ReadyNodes`, by the same step.

    A round depends on the latents of earlier ones alone, before they are transformed: the likelihood is a sum
    over rounds that can be computed in any order, or for some of them only, see `one_turn`.

    Sampling decides nodes as a person would color a graph: first those of high rank or, where `read` tells
    what decided nodes have become, those with few choices left. Then the last features of nodes tell which
    categories are around them already.

    Args:
        step: transforms the nodes of a round.
        rounds: their number for graphs of up to `nodes` nodes; larger graphs get as many as they need.
        nodes: the most nodes of a graph in training.
        free: nodes with at most so many different categories around them always find one.
        reach: nodes of a round are more than so many edges apart, see `ReadyNodes`.
        read: categories `[batch, nodes]` below `free + 1` of latents `[batch, nodes, channels]`; `None` to go
            by rank alone.
    """

    def __init__(
        self,
        step: RoundStep,
        rounds: int,
        nodes: int,
        free: int,
        reach: int = 2,
        read: Callable[[Tensor, Context], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.step = step
        self.order, self.ready = NodeOrder(), ReadyNodes(free, reach)
        self.surroundings = Surroundings(free + 1)
        self.rounds, self.nodes, self.read = rounds, nodes, read

    def forward(self, z: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        graph = _need_graph(ctx)
        categories, plan = self._categories(z, graph), self.plan(z, graph)
        most = int(ctx.hide(plan).max()) + 1 if self._may_ask(graph) else self._most(graph)
        logdet = torch.zeros_like(ctx.counts(z))
        for turn in reversed(range(most)):
            around = self._around(graph, categories, plan < turn)
            z, change = self.step(z, _turn(graph, plan == turn, plan < turn, around))
            logdet = logdet + change
        return z, logdet

    def inverse(self, z: Tensor, ctx: Context) -> Tensor:
        graph = _need_graph(ctx)
        order, most = self.order(graph.edges, graph.ties), self._most(graph)
        todo = graph.real(z)
        found = z.clone()
        if not self._may_ask(graph):
            open_nodes = todo.clone()

            def decide(turn: Index) -> None:
                after = self._decide(found, graph, order, open_nodes, last=turn == most - 1)
                for old, new in zip((found, open_nodes), after, strict=True):
                    old.copy_(new)

            repeat(decide, most, z.device)
            return found
        rows = torch.arange(ctx.batch, device=z.device)
        for turn in range(most):
            left = todo.any(1).nonzero().squeeze(1)
            if len(left) < len(rows):  # graphs that are done need no further rounds
                rows, graph, order, todo = rows[left], graph.take(left), order[left], todo[left]
            if len(rows) == 0:
                break
            last = turn == self._last(graph, z)
            found[rows], todo = self._decide(found[rows], graph, order, todo, last)
        return found

    def _decide(
        self, z: Tensor, ctx: GraphContext, order: Tensor, todo: Tensor, last: bool | Tensor
    ) -> tuple[Tensor, Tensor]:
        """Latents after one more round, and which nodes `todo: [batch, nodes]` are left after it."""
        decided = ctx.real(z) & ~todo
        around = self._around(ctx, self._categories(z, ctx), decided)
        if isinstance(last, Tensor):
            now = todo & (last | self.ready(ctx.edges, order, todo, around))
        else:
            now = todo if last else self.ready(ctx.edges, order, todo, around)
        return self.step.inverse(z, _turn(ctx, now, decided, around)), todo & ~now

    def plan(self, z: Tensor, ctx: GraphContext) -> Tensor:
        """The round of every node, from 0: `[batch, nodes]`; that of padding is behind all others.

        Nodes that would need more rounds than there are share the last one.

        Args:
            z: `[batch, nodes, channels]`, as encoded.
            ctx: of the graphs.
        """
        order, categories = self.order(ctx.edges, ctx.ties), self._categories(z, ctx)
        todo = present = ctx.real(z)
        plan = torch.where(present, 0, ctx.elements + self.rounds)
        last = self._last(ctx, z)
        for turn in range(self._most(ctx) - 1):
            around = self._around(ctx, categories, present & ~todo)
            todo = todo & ~self.ready(ctx.edges, order, todo, around)
            plan = plan + (todo & (turn < last))
        return plan

    def one_turn(self, z: Tensor, ctx: GraphContext, node: Tensor) -> GraphContext:
        """The context of the round of `node: [batch]` in each graph, with the nodes of it as its mask.

        `step` takes it as one of its rounds, graphs being in different ones.

        Args:
            z: `[batch, nodes, channels]`, as encoded.
            ctx: of the graphs.
            node: `[batch]`.
        """
        plan = self.plan(z, ctx)
        turn = plan.gather(1, node.unsqueeze(1))
        around = self._around(ctx, self._categories(z, ctx), plan < turn)
        return replace(_turn(ctx, plan == turn, plan < turn, around), mask=plan == turn)

    def _categories(self, z: Tensor, ctx: GraphContext) -> Tensor | None:
        """What nodes have become, `[batch, nodes]`, where that matters."""
        return None if self.read is None else self.read(z, ctx)

    def _around(self, ctx: GraphContext, categories: Tensor | None, decided: Tensor) -> Tensor | None:
        """The categories around nodes, `[batch, nodes, categories]`, where they matter."""
        if categories is None:
            return None
        around: Tensor = self.surroundings(ctx.edges, categories, decided)
        return around

    def _most(self, ctx: GraphContext) -> int:
        """Rounds that graphs of this size may have."""
        return ctx.elements if ctx.elements > self.nodes else self.rounds

    def _last(self, ctx: GraphContext, like: Tensor) -> Tensor:
        """The last round of every graph, by its own nodes and not by its padding: `[batch, 1]`."""
        counts = ctx.counts(like).unsqueeze(1)
        return torch.where(counts > self.nodes, self._most(ctx) - 1, self.rounds - 1)

    def _may_ask(self, ctx: GraphContext) -> bool:
        """Whether to look how many rounds are needed.

        That would make a GPU wait, and graphs of training are many at once anyway.
        """
        return ctx.elements > self.nodes or not counts_on_device(ctx.edges.device)


def _need_graph(ctx: Context) -> GraphContext:
    if not isinstance(ctx, GraphContext):
        raise InputError(f"Rounds need a GraphContext, not a {type(ctx).__name__}.")
    return ctx


def _turn(ctx: GraphContext, now: Tensor, before: Tensor, around: Tensor | None) -> GraphContext:
    """The context of a round, its last features being what is around, and flags of whose turn it is."""
    flags = torch.stack([now, before], dim=-1)
    features = [part for part in (ctx.features, around, flags) if part is not None]
    return ctx.with_features(torch.cat(features, dim=-1))
