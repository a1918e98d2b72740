"""Encoder and decoder that both see the whole example: the encoding of Latent NF (a baseline)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from catnf.context import Context
from catnf.encodings.encoding import REACH, Encoded, Encoding
from catnf.flows.anchors import Anchors
from catnf.nets.linear import lookup, select


class JointEncoding(Encoding):
    """`q(z|x)` is a logistic whose mean and scale a network finds from all categories; `p(x|z)` is a
    network over all latents, so that interactions can hide in the decoder.

    Args:
        categories: the number of categories.
        channels: latent channels of an element.
        encoder: `(embedded x, ctx) -> [batch, elements, 2 * channels]`.
        decoder: `(z, ctx) -> [batch, elements, categories]`.
        features: width of the category embedding.
        reach: how many times farther than other weights the table of means moves in a step.
        columns: `()`, or the number of tables where every element has one of its own.
        spread: how many times farther apart the means of the table start.
    """

    def __init__(
        self,
        categories: int,
        channels: int,
        encoder: nn.Module,
        decoder: nn.Module,
        features: int,
        reach: float = REACH,
        columns: tuple[int, ...] = (),
        spread: float = 1.0,
    ) -> None:
        super().__init__(categories, channels)
        self.reach = reach
        self.embedding = nn.Parameter(torch.randn(*columns, categories, features))
        # A table beside the network separates the categories from the first step on.
        means = torch.randn(*columns, categories, channels) * (4.0 / channels**0.5 * spread)
        self.raw_means = nn.Parameter(means / reach)
        self.encoder = encoder
        self.decoder = decoder

    def rows(self, table: Tensor, x: Tensor) -> Tensor:
        """Rows of `table: [categories, width]` for the categories `x`."""
        return lookup(table, x)

    @property
    def means(self) -> Tensor:
        """Of every category before the network moves it, `[categories, channels]`."""
        return self.raw_means * self.reach

    @property
    def anchors(self) -> Anchors:
        means = self.means
        return Anchors(means, torch.zeros_like(means))

    def forward(self, x: Tensor, noise: Tensor, ctx: Context) -> Encoded:
        change, raw = self.encoder(self.rows(self.embedding, x), ctx).to(noise.dtype).chunk(2, dim=-1)
        log_scale = torch.tanh(raw)
        z = ctx.hide(self.rows(self.means, x) + change + noise * log_scale.exp())
        log_density = ctx.total(self.noise.log_prob(noise) - log_scale)
        return Encoded(z, ctx.total(select(self.posterior(z, ctx), x)), log_density)

    def posterior(self, z: Tensor, ctx: Context) -> Tensor:
        return torch.log_softmax(self.decoder(z, ctx).to(z.dtype), dim=-1)
