"""GraphCNF: a flow over whole graphs, in three steps."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from catnf.context import Context, JointContext, RelationalContext
from catnf.encodings import MixtureEncoding
from catnf.encodings.virtual import VirtualEdges
from catnf.errors import InputError
from catnf.flows.base import Logistic
from catnf.flows.coupling import unconverged_roots
from catnf.flows.joint import GraphLatents, JointFlow
from catnf.flows.transform import Transform
from catnf.models.model import Bound, Model, check_categories
from catnf.pairs import pad_graphs, pair_count, pair_layout

_STRIDE = 4  # sampled graphs are padded to multiples of this


class Bonds(NamedTuple):
    """The edges that a batch of graphs has, as lists.

    Attributes:
        place: of every edge among all pairs, `[batch, slots]`.
        present: which slots hold an edge, `[batch, slots]`.
        joint: what networks over these edges look at.
    """

    place: Tensor
    present: Tensor
    joint: JointContext


class GraphCNF(Model):
    """Nodes, then kinds of edges, then which pairs have an edge at all, one after another into the latents.

    Graphs are `x: [batch, nodes + pairs]`: categories of nodes, then of all pairs in the order of
    `catnf.pairs`, where 0 is no edge.

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

    size_frequencies: Tensor

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
        super().__init__()
        self.categories, self.kinds, self.slots = nodes.categories, edges.categories, slots
        self.nodes, self.edges, self.virtual = nodes, edges, virtual
        self.node_flow, self.edge_flow, self.pair_flow = node_flow, edge_flow, pair_flow
        self.base = Logistic()
        self.register_buffer("size_frequencies", sizes)

    def bound(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Bound:
        return self._encode(x, ctx, generator)[1]

    @torch.no_grad()
    def sample(
        self, ctx: Context, generator: torch.Generator | None = None, temperature: float = 1.0
    ) -> Tensor:
        # Graphs of about one size at a time, padded to that: the work grows with its square.
        paddings = ((ctx.counts(self.size_frequencies).long() + _STRIDE - 1) // _STRIDE * _STRIDE).cpu()
        x = torch.zeros(ctx.batch, ctx.elements + pair_count(ctx.elements), dtype=torch.int64)
        for padding in paddings.unique().tolist():
            chosen = (paddings == padding).nonzero().squeeze(1)
            nodes = min(padding, ctx.elements)
            part = ctx.take(chosen).narrow(nodes)
            x[chosen] = pad_graphs(super().sample(part, generator, temperature).cpu(), nodes, ctx.elements)
        failed = unconverged_roots(self)
        if failed:
            warnings.warn(f"{failed} latents were inverted inexactly while sampling.", stacklevel=3)
        return x.to(self.size_frequencies.device)

    def draw(self, ctx: Context, generator: torch.Generator | None, temperature: float = 1.0) -> Tensor:
        device = self.size_frequencies.device if generator is None else generator.device
        pairs = ctx.pairs()
        node_shape = (ctx.batch, ctx.elements, self.nodes.channels)
        pair_shape = (ctx.batch, pairs.elements, self.edges.channels)
        nodes = ctx.hide(self.base.sample(node_shape, generator, device, temperature))
        edges = pairs.hide(self.base.sample(pair_shape, generator, device, temperature))
        return self.decode(GraphLatents(nodes, edges), ctx)

    @torch.no_grad()
    def encode(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> GraphLatents:
        """One draw of the latents of graphs `x: [batch, nodes + pairs]`, from where `decode` leads back."""
        self.check(x, ctx)
        return self._encode(x, ctx, generator)[0]

    @torch.no_grad()
    def reconstruct(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Tensor:
        back = self.decode(self.encode(x, ctx, generator), ctx)
        unconverged_roots(self)  # so that the next samples are not blamed for these
        return back

    @torch.no_grad()
    def initialize(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> None:
        self._encode(x, ctx, generator, initialize=True)

    def draw_context(self, count: int, generator: torch.Generator) -> Context:
        """Sizes drawn from how often they occurred in training, as a context of `count` graphs."""
        largest = len(self.size_frequencies) - 1
        sizes = torch.multinomial(self.size_frequencies.float(), count, replacement=True, generator=generator)
        mask = torch.arange(largest, device=sizes.device) < sizes.unsqueeze(1)
        return Context(count, largest, mask)

    def decode(self, z: GraphLatents, ctx: Context) -> Tensor:
        """From the base distribution back to graphs `[batch, nodes + pairs]`."""
        joint = JointContext(ctx, ctx.pairs())
        z = self.pair_flow.inverse(z, joint)
        odds = self.virtual.detector(z.edges)
        if joint.edges.mask is not None:
            odds = odds.masked_fill(~joint.edges.mask, -torch.inf)
        bonds = self._bonds(odds, ctx)
        edges = bonds.joint.edges.hide(
            z.edges.gather(1, bonds.place.unsqueeze(-1).expand(-1, -1, z.edges.shape[-1]))
        )
        z = self.edge_flow.inverse(GraphLatents(z.nodes, edges), bonds.joint)
        kinds = self.edges.decode(z.edges, bonds.joint.edges) + 1
        pairs = torch.zeros_like(odds, dtype=torch.int64)
        pairs = pairs.scatter_add(1, bonds.place, bonds.joint.edges.hide(kinds))
        nodes = self.node_flow.inverse(z.nodes, self._relational(pairs, ctx))
        return torch.cat([ctx.hide(self.nodes.decode(nodes, ctx)), pairs], dim=1)

    def check(self, x: Tensor, ctx: Context) -> None:
        wanted = (ctx.batch, ctx.elements + pair_count(ctx.elements))
        if tuple(x.shape) != wanted:
            raise InputError(f"Graphs have shape {tuple(x.shape)} but their context asks for {wanted}.")
        check_categories(x[:, : ctx.elements], ctx, self.categories)
        pairs = ctx.pairs()
        check_categories(x[:, ctx.elements :], pairs, self.kinds + 1)
        most = int((pairs.hide(x[:, ctx.elements :]) > 0).sum(1).max())
        if most > self.slots:
            raise InputError(f"A graph has {most} edges; this model knows graphs of up to {self.slots}.")

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

        bonds = self._bonds(torch.where(pairs > 0, 1.0, -1.0), ctx)
        kinds = bonds.joint.edges.hide(pairs.gather(1, bonds.place) - 1)
        second = self.edges.encode(kinds, bonds.joint.edges, generator)
        z = GraphLatents(nodes, second.z)
        if initialize:
            self.edge_flow.initialize(z, bonds.joint)
        z, more = self.edge_flow(z, bonds.joint)

        virtual, log_density = self.virtual.encode((ctx.batch, every.edges.elements), generator)
        latents = every.edges.hide(_place(virtual, z.edges, bonds))
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

    def _bonds(self, odds: Tensor, ctx: Context) -> Bonds:
        """The pairs with positive `odds: [batch, pairs]`, the surest first, as lists."""
        surest, place = odds.topk(min(self.slots, odds.shape[1]), dim=1)
        present = surest > 0
        layout = pair_layout(ctx.elements, odds.device)
        ends = torch.stack([layout.first[place], layout.second[place]], dim=1)  # [batch, 2, slots]
        incidence = F.one_hot(ends, ctx.elements) * present[:, None, :, None]
        edges = Context(ctx.batch, place.shape[1], present)
        return Bonds(place, present, JointContext(ctx, edges, incidence.float()))


def _place(virtual: Tensor, edges: Tensor, bonds: Bonds) -> Tensor:
    """`virtual: [batch, pairs, channels]` with `edges: [batch, slots, channels]` in their places."""
    # Empty slots are written to a place behind the last pair.
    behind = F.pad(virtual, (0, 0, 0, 1))
    place = torch.where(bonds.present, bonds.place, virtual.shape[1])
    return behind.scatter(1, place.unsqueeze(-1).expand_as(edges), edges)[:, :-1]
