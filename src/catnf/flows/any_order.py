"""Latents of a row's categories, column after column in any order."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.context import ColumnContext, Context
from catnf.flows.base import Logistic
from catnf.flows.mixture import Mixture, mixture_logit, mixture_logit_inverse
from catnf.flows.transform import Transform
from catnf.nets.any_order import AnyOrderNetwork, seen_before

Choice = Callable[[Tensor, Tensor], Tensor]
"""Gives latents `[batch, channels]` from log-weights `[batch, categories]` and columns `[batch]`."""


class AnyOrderMixture(Transform):
    """An autoregressive mixture coupling whose mixtures are those of a column's own categories.

    The latents of a column are a mixture of the logistics that encode its categories, weighted by a network
    that sees the columns whose turn came before; the context says whose turn is when. So a model of one order
    is a model of all of them, and no order is special. The network sees of a latent the category that it
    stands for, by Bayes' rule; that is constant nearly everywhere, so the Jacobian stays triangular.

    Args:
        frequencies: of the categories of every column, `[columns, categories]`, 0 where there is none.
        hidden: width of the network.
        layers: looks at the columns before.
        heads: attention heads.
    """

    unconverged: Tensor
    log_prior: Tensor

    def __init__(self, frequencies: Tensor, hidden: int, layers: int, heads: int) -> None:
        super().__init__()
        columns, categories = frequencies.shape
        self.contents = nn.Parameter(torch.randn(columns, categories, hidden))
        self.network = AnyOrderNetwork(columns, hidden, layers, heads)
        self.weights = nn.Parameter(torch.zeros(columns, hidden, categories))
        log_prior = frequencies.clamp(min=1e-12).log().masked_fill(frequencies == 0, -math.inf)
        self.register_buffer("log_prior", log_prior)
        self.register_buffer("unconverged", torch.zeros((), dtype=torch.int64), persistent=False)

    def log_density(self, z: Tensor, ctx: Context, base: Logistic) -> Tensor:
        own = ColumnContext.need(ctx)
        densities = _log_densities(z, *own.tables)
        weights = self._all_weights(densities, own)
        return own.total(torch.logsumexp(weights + densities, dim=-1))

    def forward(self, z: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        own = ColumnContext.need(ctx)
        means, log_scales = own.tables
        weights = self._all_weights(_log_densities(z, means, log_scales), own)
        out, logdet = [], []
        for channel, values in enumerate(z.unbind(-1)):
            mixture = _mixture(weights, means[..., channel], log_scales[..., channel])
            logit, log_derivative = mixture_logit(values, mixture)
            out.append(logit * math.exp(Logistic.log_scale))
            logdet.append(log_derivative + Logistic.log_scale)
            weights = weights + _log_density(values, means[..., channel], log_scales[..., channel])
        return torch.stack(out, dim=-1), own.total(torch.stack(logdet, dim=-1))

    def inverse(self, z: Tensor, ctx: Context) -> Tensor:
        own = ColumnContext.need(ctx)
        means, log_scales = own.tables

        def restore(weights: Tensor, at: Tensor) -> Tensor:
            found = []
            for channel, values in enumerate(_pick(z, at).unbind(-1)):
                here, widths = means[at, :, channel], log_scales[at, :, channel]
                root = mixture_logit_inverse(
                    values * math.exp(-Logistic.log_scale), _mixture(weights, here, widths)
                )
                self.unconverged += (~root.converged).sum()
                found.append(root.value)
                weights = weights + _log_density(root.value, here, widths)
            return torch.stack(found, dim=-1)

        return self.in_turns(own, restore)

    def draw(
        self, ctx: Context, generator: torch.Generator | None, given: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Latents as `inverse` makes them of noise, without a search for roots.

        Args:
            ctx: says whose turn is when.
            generator: source of the draws.
            given: categories of columns that are known, -1 for others, `[columns]`.

        Returns:
            Latents `[batch, columns, channels]`, and the log-probability of what is given, `[batch]`.
        """
        own = ColumnContext.need(ctx)
        means, log_scales = own.tables
        total = torch.zeros(own.batch, device=means.device)

        def choose(weights: Tensor, at: Tensor) -> Tensor:
            nonlocal total
            clocks = torch.empty_like(weights).exponential_(generator=generator)
            chosen = (weights.exp() / clocks).argmax(-1)
            if given is not None:
                known = given[at]
                chosen = torch.where(known < 0, chosen, known)
                total = total + torch.where(known < 0, 0.0, _pick(weights, chosen))
            noise = Logistic().sample((own.batch, means.shape[-1]), generator, means.device)
            return means[at, chosen] + noise * log_scales[at, chosen].exp()

        return self.in_turns(own, choose), total

    def initialize(self, z: Tensor, ctx: Context) -> Tensor:
        return z  # nothing here depends on data

    def in_turns(self, ctx: ColumnContext, choose: Choice) -> Tensor:
        """Latents `[batch, columns, channels]`, one column of every row after another."""
        means, log_scales = ctx.tables
        z = means.new_zeros(ctx.batch, ctx.elements, means.shape[-1])
        looks, width = len(self.network.layers), self.contents.shape[-1]
        offered = means.new_zeros(ctx.batch, ctx.elements, looks, 2 * width)
        rows, columns = torch.arange(ctx.batch, device=z.device), ctx.order.argsort(1)
        for turn in range(ctx.elements):
            at = columns[:, turn]
            visible = (ctx.order < turn).unsqueeze(1)
            state = self.network(offered, visible, at.unsqueeze(1)).squeeze(1).to(z.dtype)
            logits = torch.einsum("bh,bhk->bk", state, self.weights[at]) + self.log_prior[at]
            z[rows, at] = choose(torch.log_softmax(logits, dim=-1), at)
            density = _log_density(z[rows, at].unsqueeze(-2), means[at], log_scales[at], summed=True)
            x = (density + self.log_prior[at]).argmax(-1)
            offered[rows, at] = self.network.offers(self.contents[at, x].unsqueeze(1)).squeeze(1)
        return z

    def log_weights(self, x: Tensor, ctx: ColumnContext) -> Tensor:
        """Log-weights of the categories of every column, `[batch, columns, categories]`, in rows `x`."""
        first = torch.arange(x.shape[1], device=x.device) * self.contents.shape[1]
        contents = F.embedding(x + first, self.contents.flatten(0, 1))
        state = self.network(self.network.offers(contents), seen_before(ctx.order))
        logits = torch.einsum("bch,chk->bck", state.to(self.weights.dtype), self.weights) + self.log_prior
        return torch.log_softmax(logits, dim=-1)

    def _all_weights(self, densities: Tensor, ctx: ColumnContext) -> Tensor:
        with torch.no_grad():
            x = (densities + self.log_prior).argmax(-1)
        return self.log_weights(x, ctx)


def _pick(values: Tensor, at: Tensor) -> Tensor:
    """`values[row, at[row]]` for `values: [batch, columns, ...]`."""
    return values[torch.arange(len(values), device=values.device), at]


def _mixture(weights: Tensor, means: Tensor, log_scales: Tensor) -> Mixture:
    widths = (log_scales + Logistic.log_scale).expand_as(weights)
    return Mixture(weights, means.expand_as(weights), widths)


def _log_densities(z: Tensor, means: Tensor, log_scales: Tensor) -> Tensor:
    """Of `z: [batch, columns, channels]` under all categories: `[batch, columns, categories]`."""
    return _log_density(z.unsqueeze(-2), means, log_scales, summed=True)


def _log_density(z: Tensor, means: Tensor, log_scales: Tensor, summed: bool = False) -> Tensor:
    """Elementwise, or for `z: [..., 1, channels]` summed over channels; else `z: [...]` gets a last axis."""
    values = z if summed else z.unsqueeze(-1)
    out = Logistic().log_prob((values - means) * torch.exp(-log_scales)) - log_scales
    return out.sum(-1) if summed else out
