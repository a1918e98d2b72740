"""Couplings over places: latents of texts that are transformed in a few rounds, many of them at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor
from torch.nn import functional as F

from catnf.context import Context, SequenceContext
from catnf.flows.anchors import read
from catnf.flows.category_mixture import CategoryMixture, anchored
from catnf.nets.text_rounds import ParallelTransformer


class CategoryRounds(CategoryMixture):
    """A coupling for every round of runs of elements, each given the latents of all earlier rounds.

    Within a round runs do not depend on each other; within a run the coupling goes from latent to latent, as
    `CategoryMixture` does. One network serves all couplings, and tells all they need in a single pass.
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

        return self._by_round(z, own, change), logdet

    def inverse(self, z: Tensor, ctx: Context) -> Tensor:
        own, anchors = anchored(ctx)

        def restore(y: Tensor, state: Tensor, one: Context) -> tuple[Tensor, Tensor]:
            found = self.restore(y, state, one, anchors)
            return found, found

        return self._by_round(z, own, restore)

    def _by_round(
        self,
        values: Tensor,
        ctx: SequenceContext,
        work: Callable[[Tensor, Tensor, Context], tuple[Tensor, Tensor]],
    ) -> Tensor:
        """`work` on one element of every run after the other, and on one round of runs after another.

        It gives the outcome and the latents, which all that follows sees.
        """
        network, anchors = cast("ParallelTransformer", self.network), anchored(ctx)[1]
        memory, mask = network.begin(ctx, values), ctx.mask
        spare = -ctx.elements % network.run
        if spare:  # runs are whole, texts perhaps not
            mask, values = F.pad(ctx.real(values), (0, spare)), F.pad(values, (0, 0, 0, spare))
        out = torch.zeros_like(values)
        for runs in network.rounds(ctx.elements):
            first = runs * network.run
            state = network.advance(memory, runs, None if ctx.mask is None else ctx.mask[:, first])
            for index in range(network.run):
                at = first + index
                real = None if mask is None else mask[:, at]
                h = network.element(memory, runs, state, index)
                out[:, at], known = work(values[:, at], h, Context(ctx.batch, len(at), real))
                seen = read(known, anchors, self.reader)
                network.tell(memory, at, seen if real is None else seen * real.unsqueeze(-1))
        return out[:, : ctx.elements]
