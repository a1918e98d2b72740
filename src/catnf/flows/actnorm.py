"""Activation normalization: a scale and a shift per channel, set from data."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from catnf.context import Context
from catnf.flows.transform import Transform


class ActNorm(Transform):
    r"""`z * exp(log_scale) + shift` per channel, `log|det| = elements * sum(log_scale)`.

    `initialize` chooses both so that the output has mean 0 and standard deviation 1.

    Args:
        channels: latent channels.
    """

    compile_unit = True

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(channels))
        self.shift = nn.Parameter(torch.zeros(channels))

    def forward(self, z: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        out = ctx.hide(z * self.log_scale.exp() + self.shift)
        return out, ctx.counts(z) * self.log_scale.sum()

    def inverse(self, z: Tensor, ctx: Context) -> Tensor:
        return ctx.hide((z - self.shift) * torch.exp(-self.log_scale))

    @torch.no_grad()
    def initialize(self, z: Tensor, ctx: Context) -> Tensor:
        count = ctx.counts(z).sum()
        mean = ctx.hide(z).sum((0, 1)) / count
        variance = ctx.hide((z - mean).square()).sum((0, 1)) / count
        self.log_scale.copy_(-0.5 * torch.log(variance.clamp(min=1e-6)))
        self.shift.copy_(-mean * self.log_scale.exp())
        return self(z, ctx)[0]


class ConditionalActNorm(Transform):
    """`(z - mean) / scale` per channel, both linear in the context's features.

    With an embedding of the category as features, every category has a mean and a scale of its own.

    Args:
        channels: latent channels.
        features: width of `ctx.features`.
        spread: standard deviation of the means at the start.
    """

    def __init__(self, channels: int, features: int, spread: float) -> None:
        super().__init__()
        self.means = nn.Linear(features, channels)
        self.log_scales = nn.Linear(features, channels)
        # Features are unit normal at the start, so the weights carry the spread.
        nn.init.normal_(self.means.weight, std=spread / features**0.5)
        nn.init.zeros_(self.means.bias)
        nn.init.zeros_(self.log_scales.weight)
        nn.init.zeros_(self.log_scales.bias)

    def forward(self, z: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        mean, log_scale = self._moments(ctx)
        out = ctx.hide((z - mean) * torch.exp(-log_scale))
        return out, ctx.total((-log_scale).expand_as(z))

    def inverse(self, z: Tensor, ctx: Context) -> Tensor:
        mean, log_scale = self._moments(ctx)
        return ctx.hide(z * log_scale.exp() + mean)

    def _moments(self, ctx: Context) -> tuple[Tensor, Tensor]:
        assert ctx.features is not None
        return self.means(ctx.features), torch.tanh(self.log_scales(ctx.features))
