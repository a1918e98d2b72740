"""GraphCNF: a flow over whole graphs, in three steps."""

from __future__ import annotations

import torch
from torch import Tensor

from catnf.context import Context, JointContext, RelationalContext
from catnf.encodings import MixtureEncoding
from catnf.encodings.virtual import VirtualEdges
from catnf.flows.joint import GraphLatents, JointFlow
from catnf.flows.transform import Transform
from catnf.models.graph_model import GraphModel, find_bonds, place_bonds
from catnf.models.model import Bound
from catnf.pairs import pair_layout


class GraphCNF(GraphModel):
    """Nodes, then kinds of edges, then which pairs have an edge at all, one after another into the latents.

    Args:
        nodes: encoding of nodes.
        edges: encoding of the kinds of edges, of which category 0 is kind 1.
        virtual: encoding of pairs without an edge.
        node_flow: over nodes, given edges and their kinds.
        edge_flow: over nodes and kinds of edges, given which pairs have an edge.
        pair_flow: over nodes and all pairs.
        slots: how many edges a graph has at most; sampled graphs lose those that are most in doubt.
        sizes: how likely graphs of 0, 1, 2, ... nodes are, `[largest + 1]`.
    """

    def __init__(
        self,
        nodes: MixtureEncoding,
        edges: MixtureEncoding,
        virtual: VirtualEdges,
        node_flow: Transform,
        edge_flow: JointFlow,
        pair_flow: JointFlow,
        slots: int,
        sizes: Tensor,
    ) -> None:
        channels = (nodes.channels, edges.channels)
        super().__init__(nodes.categories, edges.categories, channels, slots, sizes)
        self.nodes, self.edges, self.virtual = nodes, edges, virtual
        self.node_flow, self.edge_flow, self.pair_flow = node_flow, edge_flow, pair_flow

    def encode_bound(
        self, x: Tensor, ctx: Context, generator: torch.Generator | None
    ) -> tuple[GraphLatents, Bound]:
        return self._encode(x, ctx, generator)

    @torch.no_grad()
    def initialize(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> None:
        self._encode(x, ctx, generator, initialize=True)

    def decode(self, z: GraphLatents, ctx: Context) -> Tensor:
        joint = JointContext(ctx, ctx.pairs())
        z = self.pair_flow.inverse(z, joint)
        odds = self.virtual.detector(z.edges)
        if joint.edges.mask is not None:
            odds = odds.masked_fill(~joint.edges.mask, -torch.inf)
        bonds = find_bonds(odds, ctx, self.slots)
        edges = bonds.joint.edges.hide(
            z.edges.gather(1, bonds.place.unsqueeze(-1).expand(-1, -1, z.edges.shape[-1]))
        )
        z = self.edge_flow.inverse(GraphLatents(z.nodes, edges), bonds.joint)
        kinds = self.edges.decode(z.edges, bonds.joint.edges) + 1
        pairs = torch.zeros_like(odds, dtype=torch.int64)
        pairs = pairs.scatter_add(1, bonds.place, bonds.joint.edges.hide(kinds))
        nodes = self.node_flow.inverse(z.nodes, self._relational(pairs, ctx))
        return torch.cat([ctx.hide(self.nodes.decode(nodes, ctx)), pairs], dim=1)

    def _encode(
        self, x: Tensor, ctx: Context, generator: torch.Generator | None, initialize: bool = False
    ) -> tuple[GraphLatents, Bound]:
        """Latents in the base distribution, and the bound; or initialize every flow on the way there."""
        every = JointContext(ctx, ctx.pairs())
        atoms, pairs = ctx.hide(x[:, : ctx.elements]).long(), every.edges.hide(x[:, ctx.elements :]).long()
        relational = self._relational(pairs, ctx)
        first = self.nodes.encode(atoms, ctx, generator)
        if initialize:
            self.node_flow.initialize(first.z, relational)
        nodes, change = self.node_flow(first.z, relational)

        bonds = find_bonds(torch.where(pairs > 0, 1.0, -1.0), ctx, self.slots)
        kinds = bonds.joint.edges.hide(pairs.gather(1, bonds.place) - 1)
        second = self.edges.encode(kinds, bonds.joint.edges, generator)
        z = GraphLatents(nodes, second.z)
        if initialize:
            self.edge_flow.initialize(z, bonds.joint)
        z, more = self.edge_flow(z, bonds.joint)

        virtual, log_density = self.virtual.encode((ctx.batch, every.edges.elements), generator)
        latents = every.edges.hide(place_bonds(virtual, z.edges, bonds))
        detected = every.edges.total(self.virtual.log_posterior(latents, pairs > 0))
        log_virtual = every.edges.total(torch.where(pairs > 0, 0.0, log_density))
        z = GraphLatents(z.nodes, latents)
        if initialize:
            self.pair_flow.initialize(z, every)
        z, most = self.pair_flow(z, every)

        log_base = ctx.total(self.base.log_prob(z.nodes)) + every.edges.total(self.base.log_prob(z.edges))
        log_posterior = first.log_posterior + second.log_posterior + detected
        log_weight = log_posterior - first.log_density - second.log_density - log_virtual
        return z, Bound(log_base + change + more + most + log_weight, log_posterior)

    def _relational(self, pairs: Tensor, ctx: Context) -> RelationalContext:
        layout = pair_layout(ctx.elements, pairs.device)
        matrix = pairs[:, layout.matrix]
        diagonal = torch.eye(ctx.elements, dtype=torch.bool, device=pairs.device)
        return RelationalContext.of(matrix.masked_fill(diagonal, 0), self.kinds, ctx.mask)
