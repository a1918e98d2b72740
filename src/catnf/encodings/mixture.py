"""One logistic per category."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from catnf.context import Context
from catnf.encodings.encoding import REACH, Encoded, Encoding
from catnf.flows.anchors import Anchors
from catnf.flows.base import STANDARD_SCALE
from catnf.nets.linear import lookup, select


def first_means(frequencies: Tensor, channels: int) -> Tensor:
    """Where the categories of the given `frequencies: [categories]` start, `[categories, channels]`.

    The first channel holds them by their frequency, most frequent first, at the quantiles of the base
    distribution: an order that may mean something. The others are random. All start close together and find
    their places before they part; started far apart, they stay where chance put them.
    """
    means = torch.randn(len(frequencies), channels) * (2.0 / math.sqrt(channels))
    shares, order = (frequencies / frequencies.sum()).sort(descending=True, stable=True)
    middles = (shares.cumsum(0) - 0.5 * shares).clamp(1e-3, 1.0 - 1e-3)
    means[order, 0] = STANDARD_SCALE * torch.logit(middles).to(means.dtype)
    return means


class MixtureEncoding(Encoding):
    r"""Every category is a logistic with a learned mean and scale; the decoder is Bayes' rule.

    `q(z|x) = prod_d logistic(z_d; mean_d(x), scale_d(x))` and
    `p(x|z) = prior(x) q(z|x) / sum_y prior(y) q(z|y)`.

    Args:
        frequencies: the prior over categories, `[categories]`, their frequencies in the training data.
        channels: latent channels of an element.
        decoder: `None` for Bayes' rule, or a network `z -> logits [batch, elements, categories]`.
        reach: how many times farther than other weights means and scales move in a step.
        spread: how many times farther apart than `first_means` the means start.
    """

    compile_unit = True
    log_prior: Tensor

    def __init__(
        self,
        frequencies: Tensor,
        channels: int,
        decoder: nn.Module | None = None,
        reach: float = REACH,
        spread: float = 1.0,
    ) -> None:
        super().__init__(frequencies.shape[-1], channels)
        self.reach = reach
        self.register_buffer("log_prior", frequencies.clamp(min=1e-12).log())
        self.raw_means = nn.Parameter(self.start(frequencies) * (spread / reach))
        self.raw_log_scales = nn.Parameter(torch.zeros(*frequencies.shape, channels))
        self.decoder = decoder

    def start(self, frequencies: Tensor) -> Tensor:
        """Where the means start, `[categories, channels]`."""
        return first_means(frequencies, self.channels)

    def rows(self, table: Tensor, x: Tensor) -> Tensor:
        """Rows of `table: [categories, width]` for the categories `x`."""
        return lookup(table, x)

    @property
    def means(self) -> Tensor:
        """Of every category, `[categories, channels]`."""
        return self.raw_means * self.reach

    @property
    def log_scales(self) -> Tensor:
        """Of every category, `[categories, channels]`, between -1 and 1."""
        return torch.tanh(self.raw_log_scales * self.reach)

    @property
    def anchors(self) -> Anchors:
        return Anchors(self.means, self.log_scales)

    def forward(self, x: Tensor, noise: Tensor, ctx: Context) -> Encoded:
        z, log_density = self.put(x, noise)
        log_posterior = select(self.posterior(z, ctx), x)
        return Encoded(ctx.hide(z), ctx.total(log_posterior), ctx.total(log_density))

    def put(self, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Latents `z: [batch, elements, channels]` of categories `x`, and `log q(z|x)` of each element."""
        parameters = self.rows(torch.cat([self.means, self.log_scales], dim=-1), x)
        mean, log_scale = parameters.chunk(2, dim=-1)
        return mean + noise * log_scale.exp(), (self.noise.log_prob(noise) - log_scale).sum(-1)

    def posterior(self, z: Tensor, ctx: Context) -> Tensor:
        if self.decoder is not None:
            return torch.log_softmax(self.decoder(z).to(z.dtype), dim=-1)
        log_scales = self.log_scales
        standard = (z.unsqueeze(-2) - self.means) * torch.exp(-log_scales)
        log_density = self.noise.log_prob(standard).sum(-1) - log_scales.sum(-1)
        return torch.log_softmax(log_density + self.log_prior, dim=-1)
