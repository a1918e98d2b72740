"""The end that graph networks share."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from catnf.nets.linear import AlignedLinear


class Readout(nn.Module):
    """Norm, a hidden layer, and predictions that start near zero.

    Args:
        hidden: width of the features.
        outputs: numbers to predict.
    """

    compile_unit = True

    def __init__(self, hidden: int, outputs: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden, elementwise_affine=False)
        self.gather = nn.Linear(hidden, hidden, bias=False)
        self.output = AlignedLinear(hidden, outputs)
        nn.init.normal_(self.output.weight, std=1e-2)  # a small start keeps every coupling near the identity
        nn.init.zeros_(self.output.bias)

    def forward(self, h: Tensor) -> Tensor:
        """`h: [..., hidden]` to `[..., outputs]`."""
        out: Tensor = self.output(F.gelu(self.gather(self.norm(h))))
        return out
