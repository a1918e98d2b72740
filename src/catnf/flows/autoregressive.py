"""A mixture coupling of every latent given all before it, over time and over channels."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, cast

import torch
from torch import Tensor, nn

from catnf.context import Context, SequenceContext
from catnf.flows.base import Logistic
from catnf.flows.coupling import MixtureCoupling
from catnf.flows.masks import WholeMask
from catnf.flows.mixture import Mixture
from catnf.flows.transform import Transform

_NOISE = Logistic()


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


class Anchors(NamedTuple):
    """The logistics of the categories, `[categories, channels]` each, in units of the base's scale."""

    means: Tensor
    log_scales: Tensor

    def mixture(self, logits: Tensor, channel: int | None = None) -> Mixture:
        """A mixture of them for every channel, or for one: `logits: [..., channels, categories]`."""
        means, log_scales = self.of(channel)
        # Kernels want all of their numbers beside each other.
        return Mixture(logits, means.expand_as(logits), (log_scales + Logistic.log_scale).expand_as(logits))

    def log_densities(self, z: Tensor, channel: int | None = None) -> Tensor:
        """Of `z: [..., channels]` under every category, by channel: `[..., channels, categories]`."""
        means, log_scales = self.of(channel)
        standard = (z.unsqueeze(-1) - means) * torch.exp(-log_scales)
        return _NOISE.log_prob(standard) - log_scales

    def joint_log_densities(self, z: Tensor) -> Tensor:
        """Of `z: [..., channels]` under every category, over all channels: `[..., categories]`."""
        # One channel after another: all at once would take as many times more memory.
        total = self.log_densities(z[..., :1], 0).squeeze(-2)
        for channel in range(1, z.shape[-1]):
            total = total + self.log_densities(z[..., channel : channel + 1], channel).squeeze(-2)
        return total

    def of(self, channel: int | None) -> tuple[Tensor, Tensor]:
        """Means and log-scales `[channels, categories]`, or `[categories]` for one channel."""
        if channel is None:
            return self.means.T, self.log_scales.T
        return self.means[:, channel], self.log_scales[:, channel]


class ChannelStep(nn.Module):
    """The coupling itself, given the states of a causal network; what engines compile.

    With anchors, one for every logistic, the mixture starts as the one that categories are encoded by: means
    and scales are theirs, and the weight of a category is what the state says about it, times how well it
    explains the channels before. Then a flow whose predictions are zero is as good as a language model with
    the same states, and follows the encoding wherever that moves.

    Args:
        network: a `ChannelNetwork`.
        channels: latent channels.
        mixtures: logistics in a mixture.
        weights: with anchors, a network from states to log-weights `[batch, elements, mixtures]`.
    """

    compile_unit = True

    def __init__(
        self, network: nn.Module, channels: int, mixtures: int, weights: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.network, self.channels, self.weights = network, channels, weights
        self.coupling = MixtureCoupling(None, channels, WholeMask(), mixtures)

    def forward(
        self, z: Tensor, h: Tensor, ctx: Context, anchors: Anchors | None = None
    ) -> tuple[Tensor, Tensor]:
        """Map `z: [batch, elements, channels]` given states `h`; the log-determinant is `[batch]`."""
        start = None
        if self.weights is not None and anchors is not None:
            logits = [self.weights(h).to(z.dtype)]
            for density in anchors.log_densities(z).unbind(-2)[:-1]:
                logits.append(logits[-1] + density)
            start = anchors.mixture(torch.stack(logits, dim=-2))
        return self.coupling.change(z, self.network(z, h), ctx, start)

    def restore(self, y: Tensor, h: Tensor, ctx: Context, anchors: Anchors | None = None) -> Tensor:
        """Undo `forward`, one channel after another."""
        network = cast("ChannelNetwork", self.network)
        projected = network.project(h)
        z, start = torch.zeros_like(y), None
        weights: Tensor | None = None if self.weights is None else self.weights(h).to(y.dtype)
        for channel in range(self.channels):
            predicted = network.channel(z, projected, channel)
            if weights is not None and anchors is not None:
                if channel:
                    before = z[..., channel - 1 : channel]
                    weights = weights + anchors.log_densities(before, channel - 1).squeeze(-2)
                start = anchors.mixture(weights, channel)
            new = self.coupling.restore_channel(y[..., channel], predicted, channel, ctx, start)
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
        return self.step(z, self.network(z, own), own.bare(), _anchors(own))

    def inverse(self, z: Tensor, ctx: Context) -> Tensor:
        own, network = SequenceContext.need(ctx), cast("CausalNetwork", self.network)
        memory = network.begin(own, z)
        now, out = torch.zeros_like(z[:, :1]), []
        for place in range(own.elements):
            state, memory = network.advance(now, memory)
            mask = None if own.mask is None else own.mask[:, place : place + 1]
            now = self.step.restore(
                z[:, place : place + 1], state, Context(own.batch, 1, mask), _anchors(own)
            )
            out.append(now)
        return torch.cat(out, dim=1)


def _anchors(ctx: SequenceContext) -> Anchors | None:
    return None if ctx.anchors is None else Anchors(*ctx.anchors)


class Reversed(Transform):
    """The channels in the opposite order: between two couplings, each sees first what the other sees last."""

    def forward(self, z: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        return z.flip(-1), torch.zeros_like(ctx.counts(z))

    def inverse(self, z: Tensor, ctx: Context) -> Tensor:
        return z.flip(-1)
