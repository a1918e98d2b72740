"""A mixture coupling of every latent given all before it, over time and over channels."""

from __future__ import annotations

from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from catnf.context import Context, SequenceContext
from catnf.flows.coupling import MixtureCoupling
from catnf.flows.masks import WholeMask
from catnf.flows.transform import Transform


class CausalNetwork(Protocol):
    """A network over time whose state of an element depends on the elements before it alone."""

    def __call__(self, values: Tensor, ctx: SequenceContext) -> Tensor:
        """`values: [batch, elements, inputs]` to states `[batch, elements, hidden]`."""

    def begin(self, ctx: SequenceContext, like: Tensor) -> Any:
        """What is remembered before the first element."""

    def advance(self, previous: Tensor, memory: Any) -> tuple[Tensor, Any]:
        """The next state `[batch, 1, hidden]`, given the element before it, `[batch, 1, inputs]`."""


class ChannelNetwork(Protocol):
    """A network over the channels of an element, each given those before it."""

    def __call__(self, z: Tensor, h: Tensor) -> Tensor:
        """`z: [batch, elements, channels]`, `h: [batch, elements, hidden]` to predictions of all channels."""

    def project(self, h: Tensor) -> Any:
        """The part of the work that depends on `h` alone."""

    def channel(self, z: Tensor, projected: Any, channel: int) -> Tensor:
        """Predictions `[batch, elements, outputs]` for one channel; of `z` only those before it are read."""


class ChannelStep(nn.Module):
    """The coupling itself, given the states of a causal network; what engines compile.

    Args:
        network: a `ChannelNetwork`.
        channels: latent channels.
        mixtures: logistics in a mixture.
    """

    compile_unit = True

    def __init__(self, network: nn.Module, channels: int, mixtures: int) -> None:
        super().__init__()
        self.network, self.channels = network, channels
        self.coupling = MixtureCoupling(None, channels, WholeMask(), mixtures)

    def forward(self, z: Tensor, h: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        """Map `z: [batch, elements, channels]` given states `h`; the log-determinant is `[batch]`."""
        return self.coupling.change(z, self.network(z, h), ctx)

    def restore(self, y: Tensor, h: Tensor, ctx: Context) -> Tensor:
        """Undo `forward`, one channel after another."""
        network = cast("ChannelNetwork", self.network)
        projected = network.project(h)
        z = torch.zeros_like(y)
        for channel in range(self.channels):
            predicted = network.channel(z, projected, channel)
            new = self.coupling.restore_channel(y[..., channel], predicted, channel, ctx)
            z = torch.cat([z[..., :channel], new.unsqueeze(-1), z[..., channel + 1 :]], dim=-1)
        return z


class AutoregressiveMixture(Transform):
    """Every channel of every element goes through a mixture coupling, given all that comes before it.

    `forward` takes all elements at once. `inverse` goes from element to element with a network that
    remembers, so that a text of `n` elements takes `n` small steps and not `n` passes over it.

    Args:
        network: a `CausalNetwork` of `channels` inputs.
        step: turns its states into the coupling.
    """

    def __init__(self, network: nn.Module, step: ChannelStep) -> None:
        super().__init__()
        self.network, self.step = network, step

    def forward(self, z: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        own = SequenceContext.need(ctx)
        return self.step(z, self.network(z, own), own.bare())

    def inverse(self, z: Tensor, ctx: Context) -> Tensor:
        own, network = SequenceContext.need(ctx), cast("CausalNetwork", self.network)
        memory = network.begin(own, z)
        now, out = torch.zeros_like(z[:, :1]), []
        for place in range(own.elements):
            state, memory = network.advance(now, memory)
            mask = None if own.mask is None else own.mask[:, place : place + 1]
            now = self.step.restore(z[:, place : place + 1], state, Context(own.batch, 1, mask))
            out.append(now)
        return torch.cat(out, dim=1)


class Reversed(Transform):
    """The channels in the opposite order: between two couplings, each sees first what the other sees last."""

    def forward(self, z: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        return z.flip(-1), torch.zeros_like(ctx.counts(z))

    def inverse(self, z: Tensor, ctx: Context) -> Tensor:
        return z.flip(-1)
