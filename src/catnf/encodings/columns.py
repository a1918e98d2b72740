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
from catnf.encodings.joint import JointEncoding
from catnf.encodings.mixture import MixtureEncoding, first_means
from catnf.flows.base import logistic_log_density
from catnf.flows.step import Conditioner, mixture_steps


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


class ColumnMixtureEncoding(MixtureEncoding):
    """Every category of every column is a logistic; the decoder is Bayes' rule among a column's own.

    Args:
        frequencies: the prior over the categories of every column, `[columns, categories]`, zero where a
            column has fewer.
        channels: latent channels of a column.
        reach: how many times farther than other weights means and scales move in a step.
        apart: distance of neighbouring means at the start, where categories have their places from then on;
            `None` for a start close together.
    """

    def __init__(
        self, frequencies: Tensor, channels: int, reach: float = REACH, apart: float | None = None
    ) -> None:
        self.apart = apart
        super().__init__(frequencies, channels, reach=reach)
        self.log_prior = _forbid(self.log_prior, frequencies > 0)

    def start(self, frequencies: Tensor) -> Tensor:
        """Where the means start, `[columns, categories, channels]`."""
        means = torch.zeros(*frequencies.shape, self.channels)
        for column, own in enumerate(frequencies > 0):
            if self.apart is not None:
                count = int(own.sum())
                means[column, own, 0] = self.apart * (torch.arange(count) - 0.5 * (count - 1))
                continue
            means[column, own] = first_means(frequencies[column, own], self.channels)
        return means

    def rows(self, table: Tensor, x: Tensor) -> Tensor:
        return lookup_columns(table, x)


class ColumnJointEncoding(JointEncoding):
    """The encoding of Latent NF whose decoder knows which categories a column has.

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
        columns, categories = exists.shape
        super().__init__(categories, channels, encoder, decoder, features, reach, (columns,))
        self.register_buffer("exists", exists, persistent=False)

    def rows(self, table: Tensor, x: Tensor) -> Tensor:
        return lookup_columns(table, x)

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
