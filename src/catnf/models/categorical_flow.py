"""Categorical normalizing flow: an encoding, a flow, a base distribution."""

from __future__ import annotations

import warnings
from dataclasses import replace

import torch
from torch import Tensor

from catnf.context import Context, ElementwiseContext, GraphContext
from catnf.encodings.encoding import Encoding
from catnf.errors import InputError
from catnf.flows.base import Logistic
from catnf.flows.coupling import unconverged_roots
from catnf.flows.rounds import Rounds
from catnf.flows.transform import Transform
from catnf.models.model import Bound, Model


class CategoricalFlow(Model):
    """`log p(x) >= E_q(z|x)[log p_flow(z) + log p(x|z) - log q(z|x)]`.

    Args:
        encoding: maps categories to latents and back.
        flow: maps latents to the base distribution.
    """

    def __init__(self, encoding: Encoding, flow: Transform) -> None:
        super().__init__()
        self.encoding = encoding
        self.flow = flow
        self.base = Logistic()
        self.categories = encoding.categories

    def prepare(self, ctx: Context, generator: torch.Generator | None) -> Context:
        """What the flow gets to see; a model may draw something that it depends on besides the latents."""
        return ctx

    def bound(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Bound:
        return self.encode(x, self.prepare(ctx, generator), generator)[1]

    def encode(
        self, x: Tensor, ctx: Context, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Bound]:
        """Latents `[batch, elements, channels]` in the base distribution, and the bound they give.

        `ctx` is prepared already, here and for `decode`.
        """
        encoded = self.encoding.encode(ctx.hide(x).long(), ctx, generator)
        z, logdet = self.flow(encoded.z, ctx)
        log_flow = ctx.total(self.base.log_prob(z)) + logdet
        return z, Bound(log_flow + encoded.log_weight, encoded.log_posterior)

    def decode(self, z: Tensor, ctx: Context) -> Tensor:
        """Categories `[batch, elements]` of latents `z: [batch, elements, channels]` of the base."""
        return ctx.hide(self.encoding.decode(self.flow.inverse(z, ctx), ctx))

    @torch.no_grad()
    def sample(
        self, ctx: Context, generator: torch.Generator | None = None, temperature: float = 1.0
    ) -> Tensor:
        x = super().sample(ctx, generator, temperature)
        failed = unconverged_roots(self.flow)
        if failed:
            warnings.warn(f"{failed} latents were inverted inexactly while sampling.", stacklevel=3)
        return x

    def draw(self, ctx: Context, generator: torch.Generator | None, temperature: float = 1.0) -> Tensor:
        ctx = self.prepare(ctx, generator)
        device = self.device if generator is None else generator.device
        shape = (ctx.batch, ctx.elements, self.encoding.channels)
        z = ctx.hide(self.base.sample(shape, generator, device, temperature))
        return self.decode(z, ctx)

    @torch.no_grad()
    def reconstruct(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Tensor:
        self.check(x, ctx)
        ctx = self.prepare(ctx, generator)
        back = self.decode(self.encode(x, ctx, generator)[0], ctx)
        unconverged_roots(self.flow)  # so that the next samples are not blamed for these
        return back

    @torch.no_grad()
    def initialize(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> None:
        ctx = self.prepare(ctx, generator)
        self.encoding.initialize(x, ctx, generator)
        self.flow.initialize(self.encoding.encode(x, ctx, generator).z, ctx)

    @property
    def device(self) -> torch.device:
        """Where the parameters live."""
        return next(self.parameters()).device


class FlowInRounds(CategoricalFlow):
    """A flow over the nodes of a graph in rounds, in which nodes that look alike take their turns by chance.

    So the order in which they are given means nothing. The likelihood is an average over such turns; every
    draw of the bound has its own, unless the context says who comes first. Training looks at one round of
    each graph only.

    Args:
        encoding: maps categories to latents and back.
        flow: maps latents to the base distribution.
    """

    flow: Rounds

    def __init__(self, encoding: Encoding, flow: Rounds) -> None:
        super().__init__(encoding, flow)

    def prepare(self, ctx: Context, generator: torch.Generator | None) -> GraphContext:
        if not isinstance(ctx, GraphContext):
            raise InputError(f"Rounds need a GraphContext, not a {type(ctx).__name__}.")
        if ctx.ties is not None:
            return ctx
        ties = torch.rand(ctx.batch, ctx.elements, device=ctx.edges.device, generator=generator)
        return replace(ctx, ties=ties)

    def training_bound(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Bound:
        """The part of one round in the bound, that of a random node, as if all nodes were like those in it.

        Rounds are drawn by the number of their nodes, so this averages to `bound`.
        """
        ctx = self.prepare(ctx, generator)
        alone = ElementwiseContext(ctx.batch, ctx.elements, ctx.mask)
        encoded = self.encoding.encode(ctx.hide(x).long(), alone, generator)
        chances = torch.rand(ctx.batch, ctx.elements, device=x.device, generator=generator)
        turn = self.flow.one_turn(encoded.z, ctx, ctx.hide(chances).argmax(1))
        z, logdet = self.flow.step(encoded.z, turn)
        value = turn.total(self.base.log_prob(z).sum(-1) + encoded.log_weight) + logdet
        share = ctx.counts(value) / turn.counts(value)
        return Bound(share * value, share * turn.total(encoded.log_posterior))
