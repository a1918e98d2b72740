"""Encodings of tables, whose columns have categories of their own.

Every column has a number of categories; tables of means and embeddings are `[columns, categories, ...]`, as
wide as the column with the most. Categories that a column lacks have probability zero in every decoder, so
that a model is a distribution over the cross product of the columns and nothing else.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.context import Context
from catnf.encodings.encoding import REACH, Encoded, Encoding
from catnf.encodings.mixture import first_means
from catnf.flows.base import logistic_log_density
from catnf.flows.step import Conditioner, mixture_steps
from catnf.nets.linear import select


def lookup_columns(table: Tensor, x: Tensor) -> Tensor:
    """Rows of `table: [columns, categories, width]` for `x: [batch, columns]`: `[batch, columns, width]`."""
    columns, categories, width = table.shape
    if categories <= 32:  # gradients that add into few rows are slow; see `catnf.nets.linear.lookup`
        hot = F.one_hot(x, categories).to(table.dtype)
        return torch.einsum("bck,ckw->bcw", hot, table)
    first = torch.arange(columns, device=x.device) * categories
    return F.embedding(x + first, table.reshape(-1, width))


def _forbid(values: Tensor, exists: Tensor) -> Tensor:
    """`values: [..., columns, categories]` with minus infinity where a column lacks a category."""
    return values.masked_fill(~exists, -math.inf)


class ColumnMixtureEncoding(Encoding):
    """Every category of every column is a logistic; the decoder is Bayes' rule among a column's own.

    Args:
        frequencies: the prior over the categories of every column, `[columns, categories]`, zero where a
            column has fewer.
        channels: latent channels of a column.
        reach: how many times farther than other weights means and scales move in a step.
    """

    compile_unit = True
    log_prior: Tensor

    def __init__(self, frequencies: Tensor, channels: int, reach: float = REACH) -> None:
        super().__init__(frequencies.shape[1], channels)
        self.reach = reach
        exists = frequencies > 0
        self.register_buffer("log_prior", _forbid(frequencies.clamp(min=1e-12).log(), exists))
        means = torch.zeros(*frequencies.shape, channels)
        for column, own in enumerate(exists):
            means[column, own] = first_means(frequencies[column, own], channels)
        self.raw_means = nn.Parameter(means / reach)
        self.raw_log_scales = nn.Parameter(torch.zeros(*frequencies.shape, channels))

    @property
    def means(self) -> Tensor:
        """Of every category, `[columns, categories, channels]`."""
        return self.raw_means * self.reach

    @property
    def log_scales(self) -> Tensor:
        """Of every category, `[columns, categories, channels]`, between -1 and 1."""
        return torch.tanh(self.raw_log_scales * self.reach)

    def forward(self, x: Tensor, noise: Tensor, ctx: Context) -> Encoded:
        parameters = lookup_columns(torch.cat([self.means, self.log_scales], dim=-1), x)
        mean, log_scale = parameters.chunk(2, dim=-1)
        z = mean + noise * log_scale.exp()
        log_density = (self.noise.log_prob(noise) - log_scale).sum(-1)
        log_posterior = select(self.posterior(z, ctx), x)
        return Encoded(z, ctx.total(log_posterior), ctx.total(log_density))

    def posterior(self, z: Tensor, ctx: Context) -> Tensor:
        log_scales = self.log_scales
        standard = (z.unsqueeze(-2) - self.means) * torch.exp(-log_scales)
        log_density = self.noise.log_prob(standard).sum(-1) - log_scales.sum(-1)
        return torch.log_softmax(log_density + self.log_prior, dim=-1)


class ColumnJointEncoding(Encoding):
    """The encoding of Latent NF (see `JointEncoding`) whose decoder knows which categories a column has.

    Args:
        exists: `[columns, categories]`, true where a column has a category.
        channels: latent channels of a column.
        encoder: `(embedded x, ctx) -> [batch, columns, 2 * channels]`.
        decoder: `(z, ctx) -> [batch, columns, categories]`.
        features: width of the category embedding.
        reach: how many times farther than other weights the table of means moves in a step.
    """

    exists: Tensor

    def __init__(
        self,
        exists: Tensor,
        channels: int,
        encoder: nn.Module,
        decoder: nn.Module,
        features: int,
        reach: float = REACH,
    ) -> None:
        super().__init__(exists.shape[1], channels)
        self.reach = reach
        self.register_buffer("exists", exists, persistent=False)
        self.embedding = nn.Parameter(torch.randn(*exists.shape, features))
        means = torch.randn(*exists.shape, channels) * (4.0 / channels**0.5)
        self.raw_means = nn.Parameter(means / reach)
        self.encoder = encoder
        self.decoder = decoder

    def forward(self, x: Tensor, noise: Tensor, ctx: Context) -> Encoded:
        change, raw = self.encoder(lookup_columns(self.embedding, x), ctx).to(noise.dtype).chunk(2, dim=-1)
        log_scale = torch.tanh(raw)
        z = lookup_columns(self.raw_means * self.reach, x) + change + noise * log_scale.exp()
        log_density = ctx.total(self.noise.log_prob(noise) - log_scale)
        return Encoded(z, ctx.total(select(self.posterior(z, ctx), x)), log_density)

    def posterior(self, z: Tensor, ctx: Context) -> Tensor:
        return torch.log_softmax(_forbid(self.decoder(z, ctx).to(z.dtype), self.exists), dim=-1)


class ColumnDequantizationEncoding(Encoding):
    """`z = logit((x + u) / categories)` with as many cells as a column has categories.

    See `DequantizationEncoding`, of which this is the form for tables.

    Args:
        exists: `[columns, categories]`, true where a column has a category.
        layers: steps of the noise flow.
        mixtures: logistics in a coupling.
        features: width of the category embedding, which every conditioner gets as `ctx.features`.
        conditioner: makes the conditioners.
    """

    cells: Tensor

    def __init__(
        self, exists: Tensor, layers: int, mixtures: int, features: int, conditioner: Conditioner
    ) -> None:
        super().__init__(exists.shape[1], 1)
        self.register_buffer("cells", exists.sum(1).float(), persistent=False)
        self.embedding = nn.Parameter(torch.randn(*exists.shape, features))
        self.flow = mixture_steps(1, layers, mixtures, conditioner, len(exists))

    def forward(self, x: Tensor, noise: Tensor, ctx: Context) -> Encoded:
        v, logdet = self.flow(noise, ctx.with_features(lookup_columns(self.embedding, x)))
        # u = sigmoid(v). Both x + u and cells - x - u are formed in log-space: exact at both ends.
        cell, cells = x.unsqueeze(-1).to(v.dtype), self.cells.unsqueeze(-1)
        log_below = torch.logaddexp(cell.log(), F.logsigmoid(v))
        log_above = torch.logaddexp((cells - 1 - cell).log(), F.logsigmoid(-v))
        log_slope = cells.log() - log_below - log_above + logistic_log_density(v)
        log_density = ctx.total(self.noise.log_prob(noise)) - logdet - ctx.total(log_slope)
        return Encoded(log_below - log_above, torch.zeros_like(log_density), log_density)

    def posterior(self, z: Tensor, ctx: Context) -> Tensor:
        cell = F.one_hot(self.decode(z, ctx), self.categories)
        return torch.where(cell > 0, 0.0, -math.inf)

    def decode(self, z: Tensor, ctx: Context) -> Tensor:
        cell = torch.floor(torch.sigmoid(z.squeeze(-1)) * self.cells)
        return cell.clamp(min=0).minimum(self.cells - 1).long()

    def initialize(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> None:
        noise = self.noise.sample((*x.shape, self.channels), generator, x.device)
        self.flow.initialize(noise, ctx.with_features(lookup_columns(self.embedding, x)))
