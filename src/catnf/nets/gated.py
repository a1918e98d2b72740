"""The update that graph networks share."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class GatedUpdate(nn.Module):
    """Take in a gated share of what was computed: `h + sigmoid(T c) * (H c - h)`.

    Args:
        hidden: width of the state.
        inputs: width of what was computed, `hidden` unless given.
    """

    def __init__(self, hidden: int, inputs: int | None = None) -> None:
        super().__init__()
        self.update = nn.Linear(hidden if inputs is None else inputs, 2 * hidden)
        # Gates start nearly closed, so that a deep stack starts near the identity.
        with torch.no_grad():
            self.update.bias.zero_()
            self.update.bias[hidden:] = -1.0

    def forward(self, h: Tensor, computed: Tensor) -> Tensor:
        """`h: [..., hidden]`, `computed: [..., inputs]`."""
        value, gate = self.update(computed).chunk(2, dim=-1)
        out: Tensor = h + torch.sigmoid(gate) * (value - h)
        return out
