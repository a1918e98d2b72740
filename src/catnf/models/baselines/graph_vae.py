"""Variational auto-encoder whose encoder and decoder both see the graph (a baseline)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from catnf.context import Context
from catnf.models.model import Bound, Model, draw_categories
from catnf.nets.linear import lookup, select


class GraphVAE(Model):
    """Latents with a standard normal prior for every node; the decoder gives each color's probability.

    Args:
        categories: the number of colors.
        channels: latent channels of a node.
        features: width of the embedding of colors.
        encoder: `(embedded colors, ctx) -> [batch, nodes, 2 * channels]`.
        decoder: `(latents, ctx) -> logits [batch, nodes, categories]`.
    """

    def __init__(
        self, categories: int, channels: int, features: int, encoder: nn.Module, decoder: nn.Module
    ) -> None:
        super().__init__()
        self.categories, self.channels = categories, channels
        self.embedding = nn.Parameter(torch.randn(categories, features))
        self.encoder, self.decoder = encoder, decoder

    def bound(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Bound:
        mean, log_scale, noise = self._encode(x, ctx, generator)
        z = mean + noise * log_scale.exp()
        log_posterior = self._log_posterior(x, z, ctx)
        log_ratio = ctx.total(0.5 * (noise.square() - z.square()) + log_scale)
        return Bound(log_posterior + log_ratio, log_posterior)

    def training_bound(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Bound:
        """With the exact divergence from the prior instead of its value at one draw."""
        mean, log_scale, noise = self._encode(x, ctx, generator)
        log_posterior = self._log_posterior(x, mean + noise * log_scale.exp(), ctx)
        divergence = ctx.total(0.5 * (mean.square() + (2.0 * log_scale).exp() - 1.0) - log_scale)
        return Bound(log_posterior - divergence, log_posterior)

    def draw(self, ctx: Context, generator: torch.Generator | None, temperature: float = 1.0) -> Tensor:
        shape = (ctx.batch, ctx.elements, self.channels)
        z = ctx.hide(torch.randn(shape, device=self.embedding.device, generator=generator) * temperature)
        return ctx.hide(draw_categories(self.decoder(z, ctx).float() / temperature, generator))

    @torch.no_grad()
    def reconstruct(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Tensor:
        self.check(x, ctx)
        mean, log_scale, noise = self._encode(x, ctx, generator)
        return ctx.hide(self.decoder(mean + noise * log_scale.exp(), ctx).argmax(-1))

    def _encode(
        self, x: Tensor, ctx: Context, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Mean and log-scale of the latents, and noise to draw them with, `[batch, nodes, channels]` each."""
        out = self.encoder(lookup(self.embedding, ctx.hide(x).long()), ctx).float()
        mean, raw = ctx.hide(out).chunk(2, dim=-1)
        noise = torch.randn(mean.shape, device=mean.device, generator=generator)
        # Scales between e^-5 and e^5: beyond them one unlucky step would overflow.
        return mean, 5.0 * torch.tanh(raw / 5.0), ctx.hide(noise)

    def _log_posterior(self, x: Tensor, z: Tensor, ctx: Context) -> Tensor:
        logits = self.decoder(ctx.hide(z), ctx).float()
        return ctx.total(select(torch.log_softmax(logits, dim=-1), ctx.hide(x).long()))
