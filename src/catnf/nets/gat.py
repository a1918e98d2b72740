"""Graph attention: nodes look at their neighbours."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.context import Context, GraphContext
from catnf.errors import InputError
from catnf.kernels.neighbours import average_neighbours
from catnf.nets.gated import GatedUpdate
from catnf.nets.linear import AlignedLinear, lookup
from catnf.nets.network import Network
from catnf.nets.readout import Readout


class GraphAttentionLayer(nn.Module):
    """Each node averages its neighbours and itself, weighted by attention, and takes in a gated share of it.

    A node's view of itself is a relation of its own, with its own weights. Products go over all pairs of
    nodes, masked by the edges, so that shapes do not depend on the graph.

    Args:
        hidden: width.
        heads: attention heads.
        expansion: width of all heads together, in widths of the layer.
    """

    def __init__(self, hidden: int, heads: int, expansion: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(hidden, elementwise_affine=False)
        self.values = nn.Linear(hidden, 2 * expansion * hidden, bias=False)  # as a neighbour, and to itself
        self.scores = AlignedLinear(hidden, 3 * heads)  # as the one who looks, as a neighbour, to itself
        self.update = GatedUpdate(hidden, expansion * hidden)

    def forward(self, h: Tensor, adjacency: Tensor) -> Tensor:
        """`h: [batch, nodes, hidden]`; `adjacency: [batch, nodes, nodes]`, true where there is an edge."""
        normed = self.norm(h)
        mixed = average_neighbours(self.values(normed), self.scores(normed), adjacency, self.heads)
        out: Tensor = self.update(h, mixed)
        return out


class GraphAttention(Network):
    """A stack of graph attention layers, equivariant to the order of nodes.

    Args:
        inputs: channels of the kept latents, 0 for none.
        outputs: numbers to predict for a node.
        features: width of `ctx.features`, 0 for none.
        hidden: width; a quarter of it is an embedding of the node's degree.
        layers: attention layers.
        heads: attention heads.
        degrees: degrees that are told apart; larger ones count as the largest.
        expansion: width of all heads together, in widths of the network.
    """

    compile_unit = True

    def __init__(
        self,
        inputs: int,
        outputs: int,
        features: int = 0,
        hidden: int = 384,
        layers: int = 4,
        heads: int = 4,
        degrees: int = 24,
        expansion: int = 2,
    ) -> None:
        super().__init__()
        if hidden % 4 or expansion * hidden % heads:
            raise InputError(
                f"hidden is {hidden}; choose a multiple of 4, {expansion} of which the {heads} heads divide."
            )
        self.takes_features = features > 0
        self.degrees = nn.Parameter(torch.randn(degrees, hidden // 4))
        self.input = AlignedLinear(inputs + features, hidden - hidden // 4)
        self.mix = nn.Linear(hidden, hidden, bias=False)
        self.layers = nn.ModuleList(GraphAttentionLayer(hidden, heads, expansion) for _ in range(layers))
        self.readout = Readout(hidden, outputs)

    def forward(self, kept: Tensor, ctx: Context) -> Tensor:
        """`kept: [batch, nodes, inputs]` to `[batch, nodes, outputs]`."""
        if not isinstance(ctx, GraphContext):
            raise InputError(f"Graph attention needs a GraphContext, not a {type(ctx).__name__}.")
        dtype = self.mix.weight.dtype
        h = kept.to(dtype)
        if self.takes_features and ctx.features is not None:
            h = torch.cat([h, ctx.features.to(dtype)], dim=-1)
        degree = ctx.edges.sum(-1).clamp(max=self.degrees.shape[0] - 1)
        h = self.mix(F.gelu(torch.cat([self.input(h), lookup(self.degrees, degree)], dim=-1)))
        for layer in self.layers:
            h = layer(h, ctx.edges)
        out: Tensor = self.readout(h)
        return out
