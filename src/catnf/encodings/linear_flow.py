"""A small flow per category: distributions that a single logistic cannot take."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from catnf.context import Context, ElementwiseContext
from catnf.encodings.encoding import Encoded, Encoding
from catnf.flows.actnorm import ConditionalActNorm
from catnf.flows.coupling import AffineCoupling
from catnf.flows.masks import ChannelMask
from catnf.flows.step import FlowStep
from catnf.flows.transform import Sequential
from catnf.nets.linear import lookup, select
from catnf.nets.mlp import MLP

BAYES_LIMIT = 20
"""Above this many categories Bayes' rule, one flow evaluation per category, gives way to a linear decoder."""


class LinearFlowEncoding(Encoding):
    """`q(z|x)` is a flow conditioned on the category, each element by itself.

    The flow maps latents to logistic noise; its couplings are affine, because Bayes' rule needs a
    differentiable inverse.

    Args:
        frequencies: the prior over categories, `[categories]`.
        channels: latent channels of an element, at least 2.
        layers: steps of the conditional flow.
        features: width of the category embedding.
        hidden: width of the conditioners.
    """

    compile_unit = True
    log_prior: Tensor

    def __init__(
        self, frequencies: Tensor, channels: int, layers: int = 4, features: int = 32, hidden: int = 64
    ) -> None:
        super().__init__(len(frequencies), channels)
        self.register_buffer("log_prior", frequencies.clamp(min=1e-12).log())
        self.embedding = nn.Parameter(torch.randn(self.categories, features))
        mask = ChannelMask()
        steps = []
        for index in range(layers):
            network = MLP(
                mask.conditioner_channels(channels), AffineCoupling.outputs(channels, mask), features, hidden
            )
            # The first normalization meets the latents themselves: its means are those of the categories.
            spread = 4.0 / math.sqrt(channels) if index == 0 else 0.0
            normalization = ConditionalActNorm(channels, features, spread)
            steps.append(FlowStep(AffineCoupling(network, channels, mask), channels, normalization))
        self.flow = Sequential(steps)
        self.decoder = nn.Linear(channels, self.categories) if self.categories > BAYES_LIMIT else None

    def forward(self, x: Tensor, noise: Tensor, ctx: Context) -> Encoded:
        own = ctx.with_features(lookup(self.embedding, x))
        z = self.flow.inverse(noise, own)
        if self.decoder is None:
            log_densities = self._log_densities(z)
            log_density = ctx.total(select(log_densities, x))
            log_posterior = torch.log_softmax(log_densities + self.log_prior, dim=-1)
        else:
            back, logdet = self.flow(z, own)
            log_density = ctx.total(self.noise.log_prob(back)) + logdet
            log_posterior = torch.log_softmax(self.decoder(z), dim=-1)
        return Encoded(z, ctx.total(select(log_posterior, x)), log_density)

    def posterior(self, z: Tensor, ctx: Context) -> Tensor:
        if self.decoder is not None:
            return torch.log_softmax(self.decoder(z), dim=-1)
        return torch.log_softmax(self._log_densities(z) + self.log_prior, dim=-1)

    def _log_densities(self, z: Tensor) -> Tensor:
        """`log q(z|y)` for every category `y`: `[batch, elements, categories]`."""
        # Elements take the place of the batch, categories that of elements: one embedding serves them all.
        batch, elements, channels = z.shape
        rows = z.reshape(-1, 1, channels).expand(-1, self.categories, -1)
        ctx = ElementwiseContext(batch * elements, self.categories, features=self.embedding.unsqueeze(0))
        out, logdet = self.flow(rows, ctx)
        log_density = self.noise.log_prob(out).sum(-1) + logdet
        return log_density.view(batch, elements, self.categories)
