"""A network over columns that take turns: each sees the columns before it, in whatever order they come."""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.nets.network import Network


class _Look(nn.Module):
    """One look of the columns to predict at those that are known, then a feed-forward network.

    Args:
        hidden: width.
        heads: attention heads.
    """

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, math.sqrt(heads / hidden)
        self.norm = nn.LayerNorm(hidden, elementwise_affine=False)
        self.ask = nn.Linear(hidden, hidden, bias=False)
        self.offer = nn.Linear(hidden, 2 * hidden, bias=False)
        self.nothing = nn.Parameter(torch.zeros(2 * hidden))  # what the first column sees
        self.mix = nn.Linear(hidden, hidden, bias=False)
        self.expand = nn.Linear(hidden, 4 * hidden, bias=False)
        self.contract = nn.Linear(4 * hidden, hidden, bias=False)

    def forward(self, h: Tensor, offered: Tensor, visible: Tensor) -> Tensor:
        keys, values = torch.cat([self.nothing.expand(len(h), 1, -1), offered], dim=1).chunk(2, dim=-1)
        # Few columns and narrow heads: plain products are faster than fused attention on a CPU.
        scores = self._split(self.ask(self.norm(h))) @ self._split(keys).transpose(-1, -2)
        hidden = ~F.pad(visible, (1, 0), value=True).unsqueeze(1)
        shares = torch.softmax((scores * self.scale).masked_fill(hidden, -math.inf), dim=-1)
        seen = shares @ self._split(values)
        h = h + self.mix(seen.transpose(1, 2).flatten(2))
        out: Tensor = h + self.contract(F.gelu(self.expand(self.norm(h))))
        return out

    def _split(self, values: Tensor) -> Tensor:
        return torch.unflatten(values, -1, (self.heads, -1)).transpose(1, 2)


class AnyOrderNetwork(Network):
    """States of columns, each from the contents of the columns that it may see.

    What a column offers to others depends on its own content alone, so that all columns of a row, each with
    its own view, are predicted in one pass, whatever their order; and a column that becomes known adds to
    what is offered and changes nothing else.

    Args:
        columns: that are predicted.
        hidden: width.
        layers: looks at the known columns.
        heads: attention heads.
    """

    def __init__(self, columns: int, hidden: int, layers: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.columns = nn.Parameter(0.5 * torch.randn(columns, hidden))
        self.layers = nn.ModuleList(_Look(hidden, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden, elementwise_affine=False)

    def offers(self, contents: Tensor) -> Tensor:
        """What columns of `contents: [batch, columns, hidden]` offer to others, by layer.

        Returns:
            `[batch, columns, layers, 2 hidden]`.
        """
        contents = self.norm(contents.to(self.columns.dtype))
        weights = torch.cat([cast("_Look", layer).offer.weight for layer in self.layers])
        return torch.unflatten(F.linear(contents, weights), -1, (len(self.layers), -1))

    def forward(self, offered: Tensor, visible: Tensor, at: Tensor | None = None) -> Tensor:
        """States of columns to predict.

        Args:
            offered: by all columns, `[batch, all columns, layers, 2 hidden]`.
            visible: what each predicted column may see, `[batch, predicted, all columns]`.
            at: numbers of the predicted columns, `[batch, predicted]`; by default all of them.

        Returns:
            `[batch, predicted, hidden]`.
        """
        h = self.columns.expand(len(offered), -1, -1) if at is None else self.columns[at]
        for index, layer in enumerate(self.layers):
            h = layer(h, offered[:, :, index], visible)
        out: Tensor = self.norm(h)
        return out


def draw_turns(batch: int, columns: int, generator: torch.Generator | None, device: torch.device) -> Tensor:
    """A random turn, `0 ... columns - 1`, for every column of every row: `[batch, columns]`."""
    chances = torch.rand(batch, columns, generator=generator, device=device)
    return chances.argsort(1).argsort(1)


def put_later(turns: Tensor, late: Tensor | None) -> Tensor:
    """`turns: [batch, columns]` with columns that are `late`, `[columns]` or for every row, at the end."""
    if late is None:
        return turns
    return (turns + late.to(turns.dtype) * turns.shape[1]).argsort(1).argsort(1)


def seen_before(turns: Tensor) -> Tensor:
    """Which columns come before which: `[batch, columns, columns]`, true where the second is seen."""
    return turns.unsqueeze(1) < turns.unsqueeze(2)
