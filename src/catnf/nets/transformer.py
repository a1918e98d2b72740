"""Permutation-equivariant conditioner for sets."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.context import Context
from catnf.kernels.attention import attention
from catnf.nets.linear import AlignedLinear
from catnf.nets.network import Network


class TransformerLayer(nn.Module):
    """Self-attention and a feed-forward network, each normalized before and added to its input.

    Neither the norms nor the linear maps have scales or biases of their own, which would change little
    and whose gradients would cost as much as the attention itself.

    Args:
        hidden: width.
        heads: attention heads.
    """

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(hidden, elementwise_affine=False)
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.mix = nn.Linear(hidden, hidden, bias=False)
        self.expand = nn.Linear(hidden, 2 * hidden, bias=False)
        self.contract = nn.Linear(2 * hidden, hidden, bias=False)

    def forward(self, h: Tensor, mask: Tensor | None) -> Tensor:
        """`h: [batch, elements, hidden]`; `mask: [batch, elements]`, true where an element is real."""
        h = h + self.mix(attention(self.qkv(self.norm(h)), self.heads, mask))
        h = h + self.contract(F.gelu(self.expand(self.norm(h))))
        return h


class SetTransformer(Network):
    """Elements that look at each other, without an order.

    The network computes in the dtype of its weights, whatever comes in.

    Args:
        inputs: channels of the kept latents, 0 for none.
        outputs: numbers to predict for an element.
        features: width of `ctx.features`, 0 for none.
        hidden: width.
        layers: transformer layers.
        heads: attention heads.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        features: int = 0,
        hidden: int = 256,
        layers: int = 2,
        heads: int = 4,
    ) -> None:
        super().__init__()
        self.input = AlignedLinear(inputs + features, hidden)
        self.mix = nn.Linear(hidden, hidden, bias=False)
        self.layers = nn.ModuleList(TransformerLayer(hidden, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden, elementwise_affine=False)
        self.gather = nn.Linear(hidden, hidden, bias=False)
        self.output = AlignedLinear(hidden, outputs)
        self.takes_features = features > 0
        # A small start keeps every coupling near the identity.
        nn.init.normal_(self.output.weight, std=1e-2)
        nn.init.zeros_(self.output.bias)

    def forward(self, kept: Tensor, ctx: Context) -> Tensor:
        """`kept: [batch, elements, inputs]` to `[batch, elements, outputs]`."""
        dtype = self.mix.weight.dtype
        h = kept.to(dtype)
        if self.takes_features and ctx.features is not None:
            h = torch.cat([h, ctx.features.to(dtype)], dim=-1)
        h = self.mix(F.gelu(self.input(h)))
        for layer in self.layers:
            h = layer(h, ctx.mask)
        out: Tensor = self.output(F.gelu(self.gather(self.norm(h))))
        return out
