"""Conditioner that looks at each element by itself."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from catnf.context import Context
from catnf.nets.linear import AlignedLinear
from catnf.nets.network import Network


class MLP(Network):
    """Two layers applied to every element, with the context's features as additional input.

    Args:
        inputs: channels of the kept latents.
        outputs: numbers to predict for an element.
        features: width of `ctx.features`, 0 for none.
        hidden: width of the hidden layer.
    """

    def __init__(self, inputs: int, outputs: int, features: int = 0, hidden: int = 64) -> None:
        super().__init__()
        self.input = AlignedLinear(inputs, hidden)
        self.side = AlignedLinear(features, hidden, bias=False) if features else None
        self.output = AlignedLinear(hidden, outputs)
        # A small start keeps every coupling near the identity.
        nn.init.normal_(self.output.weight, std=1e-2)
        nn.init.zeros_(self.output.bias)

    def forward(self, kept: Tensor, ctx: Context) -> Tensor:
        """`kept: [batch, elements, inputs]` to `[batch, elements, outputs]`."""
        dtype = self.input.weight.dtype
        hidden = self.input(kept.to(dtype))
        if self.side is not None and ctx.features is not None:
            hidden = hidden + self.side(ctx.features.to(dtype))
        out: Tensor = self.output(F.gelu(hidden))
        return out
