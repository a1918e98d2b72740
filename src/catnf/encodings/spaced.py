"""Categories far apart on a line."""

from __future__ import annotations

import torch
from torch import Tensor

from catnf.context import Context
from catnf.encodings.encoding import Encoded, Encoding
from catnf.flows.anchors import Anchors
from catnf.nets.linear import lookup, select


class SpacedEncoding(Encoding):
    """Every category is a logistic so far from all others that none is taken for another.

    Nothing is learned: it is for flows that know where the categories are, from `anchors`.

    Args:
        categories: their number.
    """

    compile_unit = True
    means: Tensor
    log_scales: Tensor

    def __init__(self, categories: int) -> None:
        super().__init__(categories, 1)
        for name, values in Anchors.spaced(categories)._asdict().items():
            self.register_buffer(name, values, persistent=False)

    @property
    def anchors(self) -> Anchors:
        """Where the categories are."""
        return Anchors(self.means, self.log_scales)

    def forward(self, x: Tensor, noise: Tensor, ctx: Context) -> Encoded:
        z = lookup(self.means, x) + noise
        log_posterior = select(self.posterior(z, ctx), x)
        log_density = self.noise.log_prob(noise).squeeze(-1)
        return Encoded(ctx.hide(z), ctx.total(log_posterior), ctx.total(log_density))

    def posterior(self, z: Tensor, ctx: Context) -> Tensor:
        return torch.log_softmax(self.noise.log_prob(z - self.means.squeeze(-1)), dim=-1)
