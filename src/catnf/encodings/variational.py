"""A flow across all elements as encoder, with a decoder for each element."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.context import Context
from catnf.encodings.encoding import Encoded, Encoding
from catnf.flows.actnorm import ConditionalActNorm
from catnf.flows.step import Conditioner, mixture_steps
from catnf.nets.linear import AlignedLinear, lookup, select
from catnf.nets.network import Network


class VariationalEncoding(Encoding):
    """`q(z|x)` is a flow of mixture couplings from noise to latents that sees all categories.

    Args:
        categories: the number of categories.
        channels: latent channels of an element.
        layers: steps of the encoder.
        mixtures: logistics in a coupling.
        features: width of the category embedding, which every conditioner gets as `ctx.features`.
        conditioner: makes the conditioners.
        hidden: width of the two-layer decoder.
    """

    def __init__(
        self,
        categories: int,
        channels: int,
        layers: int,
        mixtures: int,
        features: int,
        conditioner: Conditioner,
        hidden: int = 128,
    ) -> None:
        super().__init__(categories, channels)
        self.embedding = nn.Parameter(torch.randn(categories, features))
        self.flow = mixture_steps(channels, layers, mixtures, conditioner)
        self.placement = ConditionalActNorm(channels, features, spread=4.0 / math.sqrt(channels))
        self.decoder = Decoder(channels, categories, hidden)

    def forward(self, x: Tensor, noise: Tensor, ctx: Context) -> Encoded:
        own = ctx.with_features(lookup(self.embedding, x))
        z, logdet = self.flow(noise, own)
        log_density = ctx.total(self.noise.log_prob(noise)) - logdet
        # The placement is a normalization, so latents are made by its inverse.
        z = self.placement.inverse(z, own)
        log_density = log_density + self.placement(z, own)[1]
        return Encoded(z, ctx.total(select(self.posterior(z, ctx), x)), log_density)

    def posterior(self, z: Tensor, ctx: Context) -> Tensor:
        return torch.log_softmax(self.decoder(z).to(z.dtype), dim=-1)

    def initialize(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> None:
        noise = ctx.hide(self.noise.sample((*x.shape, self.channels), generator, x.device))
        self.flow.initialize(noise, ctx.with_features(lookup(self.embedding, x)))


class Decoder(Network):
    """Two layers from an element's latents `[..., channels]` to logits `[..., categories]`."""

    def __init__(self, channels: int, categories: int, hidden: int) -> None:
        super().__init__()
        self.hidden = AlignedLinear(channels, hidden)
        self.output = AlignedLinear(hidden, categories)

    def forward(self, z: Tensor) -> Tensor:
        logits: Tensor = self.output(F.gelu(self.hidden(z.to(self.hidden.weight.dtype))))
        return logits
