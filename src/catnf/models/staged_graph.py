"""Whole graphs in three stages, each given what the stages before decided."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from catnf.context import Context, GraphContext
from catnf.flows.joint import GraphLatents
from catnf.models.categorical_flow import FlowInRounds
from catnf.models.graph_model import Bonds, GraphModel, find_bonds, place_bonds
from catnf.models.growth import GrowthFlow
from catnf.models.model import Bound
from catnf.structure import LENGTHS, edge_structure, node_structure, walks

KIND_FEATURES = 2 * len(LENGTHS) + 1
"""What a network over kinds sees of an edge besides latents and flags: walks, and the size of the graph."""


def node_features(kinds: int) -> int:
    """How much a network over nodes sees of one: how many edges of every kind, walks, the graph's size."""
    return kinds + len(LENGTHS) + 1


class Skeleton(NamedTuple):
    """A graph of which pairs with an edge are known, and who comes first where things look alike.

    Attributes:
        bonds: its edges as lists.
        lines: the context of kinds, whose elements are edges: neighbours where they share a node.
        ends: of random walks, `[batch, lengths, nodes, nodes]`.
        adjacency: `[batch, nodes, nodes]`.
        ties: `[batch, nodes]`.
    """

    bonds: Bonds
    lines: GraphContext
    ends: Tensor
    adjacency: Tensor
    ties: Tensor


class StagedGraphFlow(GraphModel):
    """Which pairs have an edge; then the kinds of edges, in rounds; then nodes, in rounds.

    Every stage is a flow of its own that knows what was decided before it as a graph, not as latents.

    Args:
        growth: which pairs have an edge.
        edge_kinds: over edges, given those; its network sees `KIND_FEATURES` and the flags of rounds.
        nodes: over nodes, given edges and their kinds; its network sees `node_features` and the flags.
        slots: how many edges a graph has at most; sampled graphs lose those that are most in doubt.
        sizes: how likely graphs of 0, 1, 2, ... nodes are, `[largest + 1]`.
    """

    def __init__(
        self,
        growth: GrowthFlow,
        edge_kinds: FlowInRounds,
        nodes: FlowInRounds,
        slots: int,
        sizes: Tensor,
    ) -> None:
        channels = (growth.channels + nodes.encoding.channels, edge_kinds.encoding.channels)
        super().__init__(nodes.categories, edge_kinds.categories, channels, slots, sizes)
        self.growth, self.edge_kinds, self.nodes = growth, edge_kinds, nodes

    def encode_bound(
        self, x: Tensor, ctx: Context, generator: torch.Generator | None
    ) -> tuple[GraphLatents, Bound]:
        atoms, pairs = self._split(x, ctx)
        first, one = self.growth.encode(pairs > 0, ctx, generator)
        skeleton = self._skeleton(torch.where(pairs > 0, 1.0, -1.0), first[..., 0], ctx)
        second, two = self.edge_kinds.encode(self._kinds(pairs, skeleton), skeleton.lines, generator)
        third, three = self.nodes.encode(atoms, self._graph(pairs, skeleton, ctx), generator)
        # A pair without an edge has a latent of its kind as well, for paths on which it gets one.
        shape = (ctx.batch, pairs.shape[1], second.shape[-1])
        spare = ctx.pairs().hide(self.base.sample(shape, generator, x.device))
        edges = place_bonds(spare, second, skeleton.bonds)
        return GraphLatents(torch.cat([first, third], dim=-1), edges), _sum(one, two, three)

    def bound(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Bound:
        atoms, pairs = self._split(x, ctx)
        ties, one = self.growth.bound(pairs > 0, ctx, generator)
        skeleton = self._skeleton(torch.where(pairs > 0, 1.0, -1.0), ties, ctx)
        two = self.edge_kinds.bound(self._kinds(pairs, skeleton), skeleton.lines, generator)
        three = self.nodes.bound(atoms, self._graph(pairs, skeleton, ctx), generator)
        return _sum(one, two, three)

    def training_bound(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Bound:
        """All pairs, and one round of the kinds and of the nodes of each graph."""
        atoms, pairs = self._split(x, ctx)
        ties, one = self.growth.bound(pairs > 0, ctx, generator)
        skeleton = self._skeleton(torch.where(pairs > 0, 1.0, -1.0), ties, ctx)
        kinds = self._kinds(pairs, skeleton)
        two = self.edge_kinds.training_bound(kinds, skeleton.lines, generator)
        three = self.nodes.training_bound(atoms, self._graph(pairs, skeleton, ctx), generator)
        return _sum(one, two, three)

    def decode(self, z: GraphLatents, ctx: Context) -> Tensor:
        nodes, atoms = torch.split(z.nodes, [self.growth.channels, self.nodes.encoding.channels], dim=-1)
        odds = self.growth.decode(nodes, ctx)
        skeleton = self._skeleton(odds, nodes[..., 0], ctx)
        place = skeleton.bonds.place.unsqueeze(-1).expand(-1, -1, z.edges.shape[-1])
        drawn = self.edge_kinds.decode(skeleton.lines.hide(z.edges.gather(1, place)), skeleton.lines) + 1
        pairs = torch.zeros_like(odds, dtype=torch.int64)
        pairs = pairs.scatter_add(1, skeleton.bonds.place, skeleton.lines.hide(drawn))
        return torch.cat([self.nodes.decode(atoms, self._graph(pairs, skeleton, ctx)), pairs], dim=1)

    def _split(self, x: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        """Categories of nodes `[batch, nodes]` and of pairs `[batch, pairs]`, 0 at padding."""
        nodes, pairs = torch.split(x, [ctx.elements, x.shape[1] - ctx.elements], dim=1)
        return ctx.hide(nodes).long(), ctx.pairs().hide(pairs).long()

    def _kinds(self, pairs: Tensor, skeleton: Skeleton) -> Tensor:
        """Kinds of the edges in lists, from 0: `[batch, slots]`."""
        return skeleton.lines.hide(pairs.gather(1, skeleton.bonds.place) - 1)

    def _skeleton(self, odds: Tensor, ties: Tensor, ctx: Context) -> Skeleton:
        """The graph of pairs of positive `odds: [batch, pairs]`.

        `ties: [batch, nodes]` put nodes that look alike in order, and are the same on the way back.
        """
        bonds = find_bonds(odds, ctx, self.slots)
        assert bonds.joint.incidence is not None
        incidence = bonds.joint.incidence
        first, second = incidence.unbind(1)
        towards = first.mT @ second
        adjacency = towards + towards.mT > 0
        ends, touches = walks(adjacency), incidence.sum(1)
        slots = bonds.present.shape[1]
        others = ~torch.eye(slots, dtype=torch.bool, device=odds.device)
        size = ctx.sizes(touches)[:, :1].expand(-1, slots, -1)
        features = torch.cat([edge_structure(ends, incidence), size], dim=-1)
        ties = ties.to(touches.dtype)
        lines = GraphContext(
            *(ctx.batch, slots, bonds.present, features),
            adjacency=(touches @ touches.mT > 0) & others,
            ties=(touches @ ties.unsqueeze(-1)).squeeze(-1),
        )
        return Skeleton(bonds, lines, ends, adjacency, ties)

    def _graph(self, pairs: Tensor, skeleton: Skeleton, ctx: Context) -> GraphContext:
        """The context of nodes, given the kinds of edges `pairs: [batch, pairs]`."""
        kinds = torch.arange(1, self.kinds + 1, device=pairs.device)
        of_edges = pairs.gather(1, skeleton.bonds.place).unsqueeze(-1) == kinds  # [batch, slots, kinds]
        assert skeleton.bonds.joint.incidence is not None
        touching = skeleton.bonds.joint.incidence.sum(1).mT @ of_edges.float()
        features = torch.cat([touching, node_structure(skeleton.ends), ctx.sizes(touching)], dim=-1)
        return GraphContext(
            *(ctx.batch, ctx.elements, ctx.mask, features),
            adjacency=skeleton.adjacency,
            ties=skeleton.ties,
        )


def _sum(*bounds: Bound) -> Bound:
    """The bound of stages together."""
    values, log_posteriors = zip(*bounds, strict=True)
    return Bound(torch.stack(values).sum(0), torch.stack(log_posteriors).sum(0))
