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
from catnf.encodings.dequantization import DequantizationEncoding
from catnf.encodings.encoding import REACH
from catnf.encodings.joint import JointEncoding
from catnf.encodings.mixture import MixtureEncoding, first_means
from catnf.flows.step import Conditioner


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


class ColumnDequantizationEncoding(DequantizationEncoding):
    """Variational dequantization with as many cells as a column has categories.

    Args:
        exists: `[columns, categories]`, true where a column has a category.
        layers: steps of the noise flow.
        mixtures: logistics in a coupling.
        features: width of the category embedding, which every conditioner gets as `ctx.features`.
        conditioner: makes the conditioners.
    """

    def __init__(
        self, exists: Tensor, layers: int, mixtures: int, features: int, conditioner: Conditioner
    ) -> None:
        columns, categories = exists.shape
        super().__init__(categories, layers, mixtures, features, conditioner, columns, (columns,))
        self.cells = exists.sum(1).float()

    def rows(self, table: Tensor, x: Tensor) -> Tensor:
        return lookup_columns(table, x)
