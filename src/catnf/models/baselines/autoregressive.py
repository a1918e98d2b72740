"""Coloring nodes one after another (a baseline): each given the graph and the colors before it."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from catnf.context import Context, GraphContext
from catnf.errors import InputError
from catnf.models.model import Bound, Model, draw_categories
from catnf.nets.linear import lookup, select

Order = Literal["largest-first", "smallest-first", "random"]


class AutoregressiveColoring(Model):
    """`p(x) = prod_t p(x_t | x_<t)` with one network for all steps, over nodes in an order by degree.

    Ties between nodes of one degree are broken at random, so that the order of the input means nothing:
    `p(x)` is a mean over orders, and a likelihood of one drawn order a bound. A training step predicts one
    random position of every graph; likelihoods go through all of them.

    Args:
        categories: the number of colors.
        network: `(embedded colors, ctx) -> logits [batch, nodes, categories]`.
        features: width of the embedding of colors and of "not yet colored".
        order: of the nodes.
    """

    def __init__(self, categories: int, network: nn.Module, features: int, order: Order) -> None:
        super().__init__()
        self.categories = categories
        self.network = network
        self.order: Order = order
        self.embedding = nn.Parameter(torch.randn(categories + 1, features))

    def bound(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Bound:
        """The likelihood of one random position of every graph, times the number of positions."""
        place = self.places(ctx, generator)
        counts = ctx.counts(self.embedding)
        uniform = torch.rand(ctx.batch, device=x.device, generator=generator)
        now = torch.minimum((uniform * counts).long(), counts.long() - 1)
        value = self._log_prob_at(ctx.hide(x).long(), place, now, ctx) * counts
        return Bound(value, torch.zeros_like(value))

    def likelihood(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Tensor:
        """`log p(x)` given a drawn order, all positions of it: `[batch]`."""
        x = ctx.hide(x).long()
        place = self.places(ctx, generator)
        counts = ctx.counts(self.embedding)
        total = torch.zeros(ctx.batch, dtype=counts.dtype, device=counts.device)
        for step in range(ctx.elements):
            now = torch.full_like(place[:, 0], step)
            total = total + torch.where(counts > step, self._log_prob_at(x, place, now, ctx), 0.0)
        return total

    def draw(self, ctx: Context, generator: torch.Generator | None, temperature: float = 1.0) -> Tensor:
        place = self.places(ctx, generator)
        x = torch.zeros_like(place)
        for step in range(ctx.elements):
            drawn = draw_categories(self._logits(x, place < step, ctx) / temperature, generator)
            x = torch.where(place == step, drawn, x)
        return ctx.hide(x)

    @torch.no_grad()
    def reconstruct(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Tensor:
        self.check(x, ctx)
        return x.clone()  # there is no latent space to lose anything in

    def places(self, ctx: Context, generator: torch.Generator | None) -> Tensor:
        """The place of every node in the order, from 0: `[batch, nodes]`; padding comes last."""
        if not isinstance(ctx, GraphContext):
            raise InputError(f"Orders by degree need a GraphContext, not a {type(ctx).__name__}.")
        degrees = ctx.edges.sum(-1)
        key = torch.rand(degrees.shape, device=degrees.device, generator=generator)
        if self.order != "random":
            key = key + (degrees if self.order == "smallest-first" else -degrees)
        if ctx.mask is not None:
            key = key.masked_fill(~ctx.mask, torch.inf)
        return key.argsort(1).argsort(1)

    def _log_prob_at(self, x: Tensor, place: Tensor, now: Tensor, ctx: Context) -> Tensor:
        """`log p(x_t | x_<t)` for the place `now: [batch]` of every graph: `[batch]`."""
        logits = self._logits(x, place < now.unsqueeze(1), ctx)
        each = select(torch.log_softmax(logits, dim=-1), x)
        return torch.where(place == now.unsqueeze(1), each, 0.0).sum(1)

    def _logits(self, x: Tensor, known: Tensor, ctx: Context) -> Tensor:
        seen = torch.where(known, x, self.categories)
        logits: Tensor = self.network(lookup(self.embedding, seen), ctx)
        return logits.float()
