"""A coupling that says how likely categories are."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from catnf.context import Context
from catnf.flows.anchors import Anchors
from catnf.flows.base import Logistic
from catnf.flows.coupling import Coupling
from catnf.flows.masks import WholeMask
from catnf.flows.mixture import mixture_logit, mixture_logit_inverse


class CategoryCoupling(Coupling):
    """The mixture of the logistics of a `SpacedEncoding`, whose weights alone are predicted.

    It is exact where the predicted weights are the probabilities of categories, and networks are shown which
    category a latent stands for instead of the latent.

    Args:
        categories: their number, which is that of the conditioner's outputs as well.
    """

    compile_unit = True
    means: Tensor
    log_scales: Tensor
    unconverged: Tensor

    def __init__(self, categories: int) -> None:
        super().__init__(None, 1, WholeMask(), parameters=categories)
        for name, values in Anchors.spaced(categories)._asdict().items():
            self.register_buffer(name, values, persistent=False)
        self.register_buffer("unconverged", torch.zeros((), dtype=torch.int64), persistent=False)

    def describe(self, z: Tensor) -> Tensor:
        category = (z - self.means.squeeze(-1)).abs().argmin(-1)
        return F.one_hot(category, len(self.means)).to(z.dtype)

    def change(self, z: Tensor, predicted: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        logit, log_derivative = mixture_logit(z, self._anchors().mixture(self.each(predicted, z)))
        return ctx.hide(logit * math.exp(Logistic.log_scale)), ctx.total(log_derivative + Logistic.log_scale)

    def restore(self, z: Tensor, predicted: Tensor, ctx: Context) -> Tensor:
        mixture = self._anchors().mixture(self.each(predicted, z))
        root = mixture_logit_inverse(z * math.exp(-Logistic.log_scale), mixture)
        self.unconverged += ctx.total((~root.converged).to(z.dtype)).sum().to(torch.int64)
        return ctx.hide(root.value)

    def _anchors(self) -> Anchors:
        return Anchors(self.means, self.log_scales)
