"""Relational graph convolution: nodes average their neighbours, every kind of edge with its own weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.context import Context, RelationalContext
from catnf.errors import InputError
from catnf.nets.gated import GatedUpdate
from catnf.nets.linear import AlignedLinear, spare_elements
from catnf.nets.network import Network
from catnf.nets.readout import Readout


class RelationalLayer(nn.Module):
    """`W_self h_i + sum_r mean_j W_r h_j` over the neighbours `j` by relation `r`, then a gated update.

    Args:
        hidden: width.
        relations: kinds of edges.
    """

    def __init__(self, hidden: int, relations: int) -> None:
        super().__init__()
        self.relations = relations
        self.norm = nn.LayerNorm(hidden, elementwise_affine=False)
        self.values = nn.Linear(hidden, (1 + relations) * hidden, bias=False)
        self.update = GatedUpdate(hidden)

    def forward(self, h: Tensor, relations: Tensor) -> Tensor:
        """`h: [batch, nodes, hidden]`; `relations: [batch, nodes, relations * nodes]`, rows that average.

        Spare columns of `relations`, of zeros, change nothing.
        """
        own, others = self.values(self.norm(h)).split((h.shape[-1], self.relations * h.shape[-1]), dim=-1)
        others = others.unflatten(-1, (self.relations, -1)).transpose(1, 2).flatten(1, 2)
        others = F.pad(others, (0, 0, 0, relations.shape[-1] - others.shape[1]))
        out: Tensor = self.update(h, F.gelu(own + relations @ others))
        return out


class RelationalGCN(Network):
    """A stack of relational layers, equivariant to the order of nodes.

    Args:
        inputs: channels of the kept latents.
        outputs: numbers to predict for a node.
        relations: kinds of edges.
        hidden: width.
        layers: relational layers.
    """

    def __init__(self, inputs: int, outputs: int, relations: int, hidden: int = 256, layers: int = 3) -> None:
        super().__init__()
        # Besides the latents a node sees the share of its neighbours by relation, and the graph's size.
        self.input = AlignedLinear(inputs + 1, hidden)
        self.degrees = AlignedLinear(relations, hidden, bias=False)
        self.mix = nn.Linear(hidden, hidden, bias=False)
        self.layers = nn.ModuleList(RelationalLayer(hidden, relations) for _ in range(layers))
        self.readout = Readout(hidden, outputs)

    def forward(self, kept: Tensor, ctx: Context) -> Tensor:
        """`kept: [batch, nodes, inputs]` to `[batch, nodes, outputs]`."""
        if not isinstance(ctx, RelationalContext) or ctx.relations is None or ctx.degrees is None:
            raise InputError(f"A relational network needs a RelationalContext, not a {type(ctx).__name__}.")
        dtype = self.mix.weight.dtype
        h = torch.cat([kept, ctx.sizes(kept)], dim=-1).to(dtype)
        h = self.mix(F.gelu(self.input(h) + self.degrees(ctx.degrees.to(dtype))))
        relations = ctx.relations.to(dtype)
        relations = F.pad(relations, (0, spare_elements(relations.mT)))
        for layer in self.layers:
            h = layer(h, relations)
        out: Tensor = self.readout(h)
        return out
