"""The contract between categories and latents."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from catnf.context import Context
from catnf.flows.anchors import Anchors
from catnf.flows.base import Logistic

REACH = 10.0
"""What tables of means and scales are stored divided by, unless told otherwise. Adam moves every number by
about the learning rate a step, whatever its gradient, and these have to travel over several units."""


class Encoded(NamedTuple):
    """Latents drawn for a batch of categories, and the two terms of the bound that belong to them.

    Attributes:
        z: latents `[batch, elements, channels]`, zero at padded elements.
        log_posterior: `log p(x|z)`, `[batch]`.
        log_density: `log q(z|x)`, `[batch]`.
        scores: `log q(z|k)` of every category `k`, `[batch, elements, categories]`, where the encoding had to
            compute them and a flow may need them as well.
    """

    z: Tensor
    log_posterior: Tensor
    log_density: Tensor
    scores: Tensor | None = None

    @property
    def log_weight(self) -> Tensor:
        """`log p(x|z) - log q(z|x)`, `[batch]`: what the flow's `log p(z)` is added to."""
        return self.log_posterior - self.log_density


class Encoding(nn.Module):
    """Maps categories `x: [batch, elements]` to latents and back.

    Latents are made from logistic noise of their own shape, so that a draw is a function of its noise.

    Attributes:
        categories: the number of categories.
        channels: latent channels an element gets.
    """

    categories: int
    channels: int

    def __init__(self, categories: int, channels: int) -> None:
        super().__init__()
        self.categories, self.channels = categories, channels
        self.noise = Logistic()

    def forward(self, x: Tensor, noise: Tensor, ctx: Context) -> Encoded:
        """Map `noise: [batch, elements, channels]` to latents `z ~ q(z|x)`."""
        raise NotImplementedError

    def encode(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Encoded:
        """Draw `z ~ q(z|x)`."""
        noise = self.noise.sample((*x.shape, self.channels), generator, x.device)
        return self(x, ctx.hide(noise), ctx)

    def posterior(self, z: Tensor, ctx: Context) -> Tensor:
        """`log p(x|z)` of every category: `[batch, elements, categories]`."""
        raise NotImplementedError

    def decode(self, z: Tensor, ctx: Context) -> Tensor:
        """The most probable categories `[batch, elements]`."""
        return self.posterior(z, ctx).argmax(-1)

    @property
    def anchors(self) -> Anchors | None:
        """Where the categories are, for flows that start from there; `None` where they have no places."""
        return None

    def initialize(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> None:
        """Set data-dependent parameters from categories `x`; most encodings have none."""

    if TYPE_CHECKING:  # nn.Module types calls as Any

        def __call__(self, x: Tensor, noise: Tensor, ctx: Context) -> Encoded: ...
