"""Which pairs of nodes have an edge."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from catnf.context import Context, GraphContext, JointContext
from catnf.encodings import MixtureEncoding
from catnf.flows.base import Logistic
from catnf.flows.joint import GraphLatents, JointFlow
from catnf.flows.transform import Transform
from catnf.models.model import Bound
from catnf.pairs import pair_layout


class ConnectionFlow(nn.Module):
    """A flow over the latents of all pairs, beside latents of nodes that stand for nothing.

    Those are noise which a flow bends by the graph before all latents are transformed together, so that they
    can tell the nodes apart and where in the graph they are: pairs come to terms through them.

    Args:
        pairs: encoding of the categories "no edge" and "edge".
        channels: latent channels of a node.
        node_flow: over nodes, given the graph.
        pair_flow: over nodes and all pairs.
    """

    def __init__(
        self, pairs: MixtureEncoding, channels: int, node_flow: Transform, pair_flow: JointFlow
    ) -> None:
        super().__init__()
        self.pairs, self.channels = pairs, channels
        self.node_flow, self.pair_flow = node_flow, pair_flow
        self.base = Logistic()

    def encode(
        self,
        connected: Tensor,
        ctx: Context,
        generator: torch.Generator | None,
        initialize: bool = False,
    ) -> tuple[GraphLatents, Bound]:
        """Latents in the base distribution, and the bound; or initialize every flow on the way there.

        Args:
            connected: `[batch, pairs]`, true where there is an edge.
            ctx: of nodes.
            generator: of noise.
            initialize: set data-dependent parameters.
        """
        every = JointContext(ctx, ctx.pairs())
        layout = pair_layout(ctx.elements, connected.device)
        diagonal = torch.eye(ctx.elements, dtype=torch.bool, device=connected.device)
        graph = GraphContext.of(connected[:, layout.matrix] & ~diagonal, ctx.mask)
        shape = (ctx.batch, ctx.elements, self.channels)
        noise = ctx.hide(self.base.sample(shape, generator, connected.device))
        if initialize:
            self.node_flow.initialize(noise, graph)
        nodes, change = self.node_flow(noise, graph)
        encoded = self.pairs.encode(connected.long(), every.edges, generator)
        z = GraphLatents(nodes, encoded.z)
        if initialize:
            self.pair_flow.initialize(z, every)
        z, more = self.pair_flow(z, every)
        log_base = ctx.total(self.base.log_prob(z.nodes)) + every.edges.total(self.base.log_prob(z.edges))
        log_noise = ctx.total(self.base.log_prob(noise))
        return z, Bound(log_base + change + more + encoded.log_weight - log_noise, encoded.log_posterior)

    def initialize(self, connected: Tensor, ctx: Context, generator: torch.Generator | None) -> None:
        """Set data-dependent parameters; arguments as for `encode`."""
        self.encode(connected, ctx, generator, initialize=True)

    @property
    def pair_channels(self) -> int:
        """Latent channels of a pair."""
        return self.pairs.channels

    def training_bound(
        self, connected: Tensor, ctx: Context, generator: torch.Generator | None
    ) -> tuple[Tensor, Bound]:
        """A number of every node, `[batch, nodes]`, that the way back has as well, and the bound."""
        z, bound = self.encode(connected, ctx, generator)
        return z.nodes[..., 0].detach(), bound

    def decode(self, z: GraphLatents, ctx: Context) -> Tensor:
        """The log-odds that there is an edge, `[batch, pairs]`; padded pairs have none."""
        every = JointContext(ctx, ctx.pairs())
        none, edge = self.pairs.posterior(self.pair_flow.inverse(z, every).edges, every.edges).unbind(-1)
        odds = edge - none
        return odds if every.edges.mask is None else odds.masked_fill(~every.edges.mask, -torch.inf)
