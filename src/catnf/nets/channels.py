"""From the state of a text to predictions for latent channels, each given the channels before it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.nets.linear import ALIGNMENT, AlignedLinear
from catnf.nets.network import Network

_WIDE = 256
"""Numbers of a state of which a prediction is a plain sum; of more it is a smaller one."""


def _share(hidden: int) -> float:
    """What states of this width are multiplied by, so that predictions from wide ones learn as fast.

    Optimizers move every weight of a prediction by about the same: the more there are, the more adds up.
    """
    return min(1.0, _WIDE / hidden)


class CategoryWeights(Network):
    """From the state of a text `[..., hidden]` to log-weights of the categories `[..., categories]`.

    Args:
        hidden: width of the state.
        frequencies: of the categories, `[categories]`, where the weights start.
    """

    def __init__(self, hidden: int, frequencies: Tensor) -> None:
        super().__init__()
        self.share = _share(hidden)
        self.output = AlignedLinear(hidden, len(frequencies))
        nn.init.normal_(self.output.weight, std=1e-2 / self.share)
        with torch.no_grad():
            self.output.bias.copy_(frequencies.clamp(min=1e-6).log())

    def forward(self, h: Tensor) -> Tensor:
        out: Tensor = self.output(self.share * h.to(self.output.weight.dtype))
        return out


class ChannelHeads(Network):
    """A hidden layer for every channel, which sees the state of the text and the channels before it.

    A channel `c` is seen as `c`, `elu(c)` and `elu(-c)`. State and channels also reach the predictions
    directly: the log-probability of a category given both is the sum of a part of each.

    Args:
        channels: latent channels.
        hidden: width of the state.
        outputs: numbers to predict for a channel.
        width: of the hidden layer of a channel.
    """

    allowed: Tensor

    def __init__(self, channels: int, hidden: int, outputs: int, width: int = 256) -> None:
        super().__init__()
        self.channels, self.outputs, self.width = channels, outputs, width
        self.share = _share(hidden)
        self.padded = -(-outputs // ALIGNMENT) * ALIGNMENT  # of which the last ones mean nothing
        rows = -(-3 * channels // ALIGNMENT) * ALIGNMENT
        self.state = nn.Linear(hidden, channels * width)
        self.skip = AlignedLinear(hidden, channels * self.padded)
        self.seen = nn.Parameter(torch.randn(rows, channels, width) / (3 * channels) ** 0.5)
        self.seen_skip = nn.Parameter(torch.zeros(rows, channels, self.padded))
        # A small start keeps the coupling near the identity.
        self.output = nn.Parameter(torch.randn(channels, width, self.padded) * 1e-2)
        nn.init.normal_(self.skip.weight, std=1e-2 / (self.share * hidden**0.5))
        nn.init.zeros_(self.skip.bias)
        source = torch.arange(rows) % channels  # the channel that a row comes from
        before = source.unsqueeze(1) < torch.arange(channels)
        before[3 * channels :] = False
        self.register_buffer("allowed", before.unsqueeze(-1).float(), persistent=False)

    def forward(self, z: Tensor, h: Tensor) -> Tensor:
        """`z: [batch, elements, channels]`, `h: [batch, elements, hidden]` to
        `[batch, elements, channels * outputs]`.
        """
        state, skip = self.project(h)
        seen, allowed = self._seen(z), self.allowed.to(self.seen.dtype)
        inner = seen @ (self.seen * allowed).flatten(1)
        inner = torch.unflatten(inner, -1, (self.channels, self.width)) + state
        direct = seen @ (self.seen_skip * allowed).flatten(1)
        direct = torch.unflatten(direct, -1, (self.channels, self.padded))
        out = torch.einsum("...cw,cwo->...co", F.gelu(inner), self.output) + skip + direct
        return out[..., : self.outputs].flatten(-2)

    def project(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """What depends on `h` alone, of all channels: `[batch, elements, channels, width or outputs]`."""
        h = h.to(self.seen.dtype)
        state = self.state(h).unflatten(-1, (self.channels, self.width))
        return state, self.skip(self.share * h).unflatten(-1, (self.channels, self.padded))

    def channel(self, z: Tensor, projected: tuple[Tensor, Tensor], channel: int) -> Tensor:
        """Predictions `[batch, elements, outputs]` for one channel; of `z` only those before it are read."""
        state, skip = projected
        seen, allowed = self._seen(z), self.allowed[:, channel].to(self.seen.dtype)
        inner = seen @ (self.seen[:, channel] * allowed) + state[..., channel, :]
        direct = seen @ (self.seen_skip[:, channel] * allowed) + skip[..., channel, :]
        out: Tensor = F.gelu(inner) @ self.output[channel] + direct
        return out[..., : self.outputs]

    def _seen(self, z: Tensor) -> Tensor:
        """What is seen of the channels: `[batch, elements, rows]`, zeros at the end."""
        seen = torch.cat([z, F.elu(z), F.elu(-z)], dim=-1)
        return F.pad(seen, (0, len(self.seen) - seen.shape[-1])).to(self.seen.dtype)
