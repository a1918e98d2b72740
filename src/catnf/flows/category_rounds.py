"""Couplings over places: latents of texts that are transformed in a few rounds, many of them at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor
from torch.nn import functional as F

from catnf.context import Context, SequenceContext
from catnf.flows.anchors import Anchors, read
from catnf.flows.category_mixture import CategoryMixture, anchored
from catnf.nets.text_rounds import ParallelTransformer

Work = Callable[[Tensor, Tensor, Context], tuple[Tensor, Tensor]]
"""From `[batch, some, channels]`, states and a context to the outcome, and to the latents that others see."""

_NUMBERS_AT_ONCE = 1 << 26
"""Of a weight for every category of every element that is written at once; a few such tensors are needed."""


class CategoryRounds(CategoryMixture):
    """A coupling for every round of runs of elements, each given the latents of earlier rounds.

    Within a round runs do not depend on each other; within a run the coupling goes from latent to latent, as
    `CategoryMixture` does. One network serves all couplings, and tells all they need in a single pass.

    Args:
        network: a `ParallelTransformer` of as many inputs as the reader gives, or as there are channels.
        weights: a network from its states to log-weights `[batch, elements, categories]`.
        reader: a `SymbolReader`, or `None` where the network sees latents alone.
    """

    def forward(self, z: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        own, anchors = anchored(ctx)
        if not own.stepwise:
            return super().forward(z, ctx)
        logdet = torch.zeros_like(ctx.counts(z))

        def change(now: Tensor, state: Tensor, one: Context) -> tuple[Tensor, Tensor]:
            y, more = self.change(now, state, one, anchors)
            logdet.add_(more)
            return y, now

        return self._by_round(z, own, anchors, change), logdet

    def inverse(self, z: Tensor, ctx: Context) -> Tensor:
        own, anchors = anchored(ctx)

        def restore(y: Tensor, state: Tensor, one: Context) -> tuple[Tensor, Tensor]:
            found = self.restore(y, state, one, anchors)
            return found, found

        return self._by_round(z, own, anchors, restore)

    def _by_round(self, values: Tensor, ctx: SequenceContext, anchors: Anchors, work: Work) -> Tensor:
        """`work` on one element of every run after the other, and on one round of runs after another."""
        network = cast("ParallelTransformer", self.network)
        memory, mask = network.begin(ctx, values), ctx.mask
        spare = -ctx.elements % network.run
        if spare:  # runs are whole, texts perhaps not
            mask, values = F.pad(ctx.real(values), (0, spare)), F.pad(values, (0, 0, 0, spare))
        out = torch.zeros_like(values)
        most = max(1, _NUMBERS_AT_ONCE // (ctx.batch * len(anchors.means)))
        for runs in network.in_rounds(ctx.elements):
            first = runs * network.run
            state = network.advance(memory, runs, None if ctx.mask is None else ctx.mask[:, first])
            # Runs of a round do not see each other: as many at once as there is memory for.
            for some, h in zip(torch.split(runs, most), torch.split(state, most, dim=1), strict=True):
                for index in range(network.run):
                    at = some * network.run + index
                    real = None if mask is None else mask[:, at]
                    one = Context(ctx.batch, len(at), real)
                    out[:, at], known = work(values[:, at], network.element(memory, some, h, index), one)
                    seen = read(known, anchors, self.reader)
                    network.tell(memory, at, seen if real is None else seen * real.unsqueeze(-1))
        return out[:, : ctx.elements]
