"""Variational dequantization: categories as integers with learned noise (a baseline)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.context import Context
from catnf.encodings.encoding import Encoded, Encoding
from catnf.flows.base import logistic_log_density
from catnf.flows.step import Conditioner, mixture_steps
from catnf.nets.linear import lookup


class DequantizationEncoding(Encoding):
    """`z = logit((x + u) / categories)` with `u` in (0, 1) drawn by a flow that sees all categories.

    Decoding is exact: `x` is the cell that `z` lies in. The order of the categories is a bias that
    categorical data does not have, which is what this baseline shows.

    Args:
        categories: the number of categories.
        layers: steps of the noise flow.
        mixtures: logistics in a coupling.
        features: width of the category embedding, which every conditioner gets as `ctx.features`.
        conditioner: makes the conditioners.
        elements: of an example, where it is known; masks then separate any two of them.
        columns: `()`, or the number of embeddings where every element has one of its own.
    """

    cells: Tensor

    def __init__(
        self,
        categories: int,
        layers: int,
        mixtures: int,
        features: int,
        conditioner: Conditioner,
        elements: int | None = None,
        columns: tuple[int, ...] = (),
    ) -> None:
        super().__init__(categories, 1)
        self.register_buffer("cells", torch.tensor(float(categories)), persistent=False)
        self.embedding = nn.Parameter(torch.randn(*columns, categories, features))
        self.flow = mixture_steps(1, layers, mixtures, conditioner, elements)

    def rows(self, table: Tensor, x: Tensor) -> Tensor:
        """Rows of `table: [categories, width]` for the categories `x`."""
        return lookup(table, x)

    def forward(self, x: Tensor, noise: Tensor, ctx: Context) -> Encoded:
        v, logdet = self.flow(noise, ctx.with_features(self.rows(self.embedding, x)))
        # u = sigmoid(v). Both x + u and cells - x - u are formed in log-space: exact at both ends.
        cell, cells = x.unsqueeze(-1).to(v.dtype), self.cells.unsqueeze(-1)
        log_below = torch.logaddexp(cell.log(), F.logsigmoid(v))
        log_above = torch.logaddexp((cells - 1 - cell).log(), F.logsigmoid(-v))
        log_slope = cells.log() - log_below - log_above + logistic_log_density(v)
        log_density = ctx.total(self.noise.log_prob(noise)) - logdet - ctx.total(log_slope)
        return Encoded(ctx.hide(log_below - log_above), torch.zeros_like(log_density), log_density)

    def posterior(self, z: Tensor, ctx: Context) -> Tensor:
        cell = F.one_hot(self.decode(z, ctx), self.categories)
        return torch.where(cell > 0, 0.0, -math.inf)

    def decode(self, z: Tensor, ctx: Context) -> Tensor:
        cell = torch.floor(torch.sigmoid(z.squeeze(-1)) * self.cells)
        return cell.clamp(min=0).minimum(self.cells - 1).long()

    def initialize(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> None:
        noise = ctx.hide(self.noise.sample((*x.shape, self.channels), generator, x.device))
        self.flow.initialize(noise, ctx.with_features(self.rows(self.embedding, x)))
