"""A mixture coupling of every latent given all before it, over time and over channels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from catnf.context import Context, SequenceContext
from catnf.flows.anchors import Anchors, read
from catnf.flows.coupling import MixtureCoupling
from catnf.flows.masks import WholeMask
from catnf.flows.transform import Transform
from catnf.repetition import Index, at, put, repeat


class CausalNetwork(Protocol):
    """A network over time whose state of an element depends on the elements before it alone."""

    def __call__(self, values: Tensor, ctx: SequenceContext) -> Tensor:
        """`values: [batch, elements, inputs]` to states `[batch, elements, hidden]`."""

    def begin(self, ctx: SequenceContext, like: Tensor) -> Any:
        """What is remembered before the first element."""

    def advance(self, previous: Tensor, memory: Any, index: Index) -> Tensor:
        """The state `[batch, 1, hidden]` of the element `index`, given the element before."""


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

    def change(
        self, z: Tensor, h: Tensor, ctx: Context, anchors: Anchors | None = None
    ) -> tuple[Tensor, Tensor]:
        """`forward`, one channel after another as in `restore`, so that both round alike."""
        logdets = []

        def work(now: Tensor, *given: Any) -> tuple[Tensor, Tensor]:
            y, logdet = self.coupling.change_channel(now, *given)
            logdets.append(logdet)
            return y, now

        return self._by_channel(z, h, ctx, anchors, work), torch.stack(logdets).sum(0)

    def restore(self, y: Tensor, h: Tensor, ctx: Context, anchors: Anchors | None = None) -> Tensor:
        """Undo `forward`, one channel after another."""

        def work(now: Tensor, *given: Any) -> tuple[Tensor, Tensor]:
            z = self.coupling.restore_channel(now, *given)
            return z, z

        return self._by_channel(y, h, ctx, anchors, work)

    def _by_channel(
        self,
        values: Tensor,
        h: Tensor,
        ctx: Context,
        anchors: Anchors | None,
        work: Callable[..., tuple[Tensor, Tensor]],
    ) -> Tensor:
        """`work` on one channel after another: it gives the outcome and the latent, which the next see."""
        network = cast("ChannelNetwork", self.network)
        projected = network.project(h)
        z, start = torch.zeros_like(values), None
        out: list[Tensor] = []
        weights: Tensor | None = None if self.weights is None else self.weights(h).to(values.dtype)
        for channel in range(self.channels):
            predicted = network.channel(z, projected, channel)
            if weights is not None and anchors is not None:
                if channel:
                    before = z[..., channel - 1 : channel]
                    weights = weights + anchors.log_densities(before, channel - 1).squeeze(-2)
                start = anchors.mixture(weights, channel)
            outcome, new = work(values[..., channel], predicted, channel, ctx, start)
            out.append(outcome)
            z = torch.cat([z[..., :channel], new.unsqueeze(-1), z[..., channel + 1 :]], dim=-1)
        return torch.stack(out, dim=-1)


class AutoregressiveMixture(Transform):
    """Every channel of every element goes through a mixture coupling, given all that comes before it.

    `forward` takes all elements at once. `inverse` goes from element to element with a network that
    remembers, so that a text of `n` elements takes `n` small steps and not `n` passes over it.

    Args:
        network: a `CausalNetwork` of as many inputs as the reader gives, or as there are channels.
        step: turns its states into the coupling.
        reader: a `SymbolReader`, with anchors.
    """

    def __init__(self, network: nn.Module, step: ChannelStep, reader: nn.Module | None = None) -> None:
        super().__init__()
        self.network, self.step, self.reader = network, step, reader

    def forward(self, z: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        own = SequenceContext.need(ctx)
        anchors = _anchors(own)
        if own.stepwise:

            def change(now: Tensor, state: Tensor, one: Context) -> tuple[Tensor, Tensor]:
                return self.step.change(now, state, one, anchors)

            return changed_one_by_one(
                z, own, self.network, change, lambda now: read(now, anchors, self.reader)
            )
        states = self.network(read(z, anchors, self.reader), own)
        out: tuple[Tensor, Tensor] = self.step(z, states, own.bare(), anchors)
        return out

    def inverse(self, z: Tensor, ctx: Context) -> Tensor:
        own = SequenceContext.need(ctx)
        anchors = _anchors(own)

        def restore(y: Tensor, state: Tensor, one: Context) -> Tensor:
            return self.step.restore(y, state, one, anchors)

        return restored_one_by_one(z, own, self.network, restore, lambda now: read(now, anchors, self.reader))


def changed_one_by_one(
    z: Tensor,
    ctx: SequenceContext,
    network: nn.Module,
    change: Callable[[Tensor, Tensor, Context], tuple[Tensor, Tensor]],
    seen: Callable[[Tensor], Tensor],
) -> tuple[Tensor, Tensor]:
    """What latents `[batch, elements, channels]` become, as `restored_one_by_one` undoes it; and `[batch]`.

    Args:
        z: latents.
        ctx: of the texts.
        network: a `CausalNetwork`.
        change: what the latents of an element become, and its log-determinant, given its state and a context.
        seen: what the network gets to see of an element.
    """
    logdet = torch.zeros_like(ctx.counts(z))

    def work(now: Tensor, state: Tensor, one: Context) -> tuple[Tensor, Tensor]:
        y, more = change(now, state, one)
        logdet.add_(more)
        return y, now

    return _one_by_one(z, ctx, network, work, seen), logdet


def restored_one_by_one(
    y: Tensor,
    ctx: SequenceContext,
    network: nn.Module,
    restore: Callable[[Tensor, Tensor, Context], Tensor],
    seen: Callable[[Tensor], Tensor],
) -> Tensor:
    """Latents `[batch, elements, channels]`, each restored from its `y` and the state of all before it.

    Args:
        y: what the latents became, of the same shape.
        ctx: of the texts.
        network: a `CausalNetwork`.
        restore: gives the latents of an element from its `y: [batch, 1, channels]`, its state and a context.
        seen: what the network gets to see of an element.
    """

    def work(now: Tensor, state: Tensor, one: Context) -> tuple[Tensor, Tensor]:
        z = restore(now, state, one)
        return z, z

    return _one_by_one(y, ctx, network, work, seen)


def _one_by_one(
    values: Tensor,
    ctx: SequenceContext,
    network: nn.Module,
    work: Callable[[Tensor, Tensor, Context], tuple[Tensor, Tensor]],
    seen: Callable[[Tensor], Tensor],
) -> Tensor:
    """`work` on one element after another: it gives the outcome and the latents, which the next ones see."""
    over_time = cast("CausalNetwork", network)
    memory = over_time.begin(ctx, values)
    before, out = torch.zeros_like(seen(torch.zeros_like(values[:, :1]))), torch.zeros_like(values)

    def write(index: Index) -> None:
        state = over_time.advance(before, memory, index)
        now = Context(ctx.batch, 1, None if ctx.mask is None else at(ctx.mask, 1, index))
        outcome, z = work(at(values, 1, index), state, now)
        put(out, 1, index, outcome)
        before.copy_(seen(z))

    repeat(write, ctx.elements, values.device)
    return out


def _anchors(ctx: SequenceContext) -> Anchors | None:
    return None if ctx.anchors is None else Anchors(*ctx.anchors)


class Reversed(Transform):
    """The channels in the opposite order: between two couplings, each sees first what the other sees last."""

    def forward(self, z: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        return z.flip(-1), torch.zeros_like(ctx.counts(z))

    def inverse(self, z: Tensor, ctx: Context) -> Tensor:
        return z.flip(-1)
