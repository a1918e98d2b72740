"""The contract of invertible maps, and their composition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from catnf.context import Context
from catnf.flows.base import Logistic


class Transform(nn.Module):
    """An invertible map on latents `z: [batch, elements, channels]`."""

    def forward(self, z: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        """Map `z` and give the log-determinant of the Jacobian, `[batch]`, summed over real elements."""
        raise NotImplementedError

    def inverse(self, z: Tensor, ctx: Context) -> Tensor:
        """Undo `forward`."""
        raise NotImplementedError

    def log_density(self, z: Tensor, ctx: Context, base: Logistic) -> Tensor:
        """`log p(z)` where what comes out is distributed like `base`: `[batch]`."""
        out, logdet = self(z, ctx)
        return ctx.total(base.log_prob(out)) + logdet

    def initialize(self, z: Tensor, ctx: Context) -> Tensor:
        """Set data-dependent parameters from latents `z`, and return what `forward` makes of them."""
        return self(z, ctx)[0]

    if TYPE_CHECKING:  # nn.Module types calls as Any

        def __call__(self, z: Tensor, ctx: Context) -> tuple[Tensor, Tensor]: ...


class Sequential(Transform):
    """Transforms applied one after another."""

    def __init__(self, transforms: Iterable[Transform]) -> None:
        super().__init__()
        self.transforms = nn.ModuleList(transforms)

    def __iter__(self) -> Iterator[Transform]:
        return iter(cast("Iterable[Transform]", self.transforms))

    def __len__(self) -> int:
        return len(self.transforms)

    def forward(self, z: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        logdet = torch.zeros_like(ctx.counts(z))
        for transform in self:
            z, change = transform(z, ctx)
            logdet = logdet + change
        return z, logdet

    def inverse(self, z: Tensor, ctx: Context) -> Tensor:
        for transform in reversed(list(self)):
            z = transform.inverse(z, ctx)
        return z

    @torch.no_grad()
    def initialize(self, z: Tensor, ctx: Context) -> Tensor:
        for transform in self:
            z = transform.initialize(z, ctx)
        return z
