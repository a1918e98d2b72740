"""A coupling that says how likely categories are."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from catnf.context import Context
from catnf.flows.anchors import SPACING, Anchors
from catnf.flows.base import STANDARD_SCALE, Logistic
from catnf.flows.coupling import Coupling
from catnf.flows.masks import WholeMask
from catnf.flows.mixture import mixture_logit
from catnf.nets.linear import select


class CategoryCoupling(Coupling):
    """The mixture of the logistics of a `SpacedEncoding`, whose weights alone are predicted.

    So predicted weights are probabilities of categories, and the inverse needs no search. Networks are shown
    which category a latent stands for instead of the latent.

    Args:
        categories: their number, which is that of the conditioner's outputs as well.
    """

    compile_unit = True
    means: Tensor
    log_scales: Tensor

    def __init__(self, categories: int) -> None:
        super().__init__(None, 1, WholeMask(), parameters=categories)
        for name, values in Anchors.spaced(categories)._asdict().items():
            self.register_buffer(name, values, persistent=False)

    def describe(self, z: Tensor) -> Tensor:
        category = (z - self.means.squeeze(-1)).abs().argmin(-1)
        return F.one_hot(category, len(self.means)).to(z.dtype)

    def change(self, z: Tensor, predicted: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        mixture = Anchors(self.means, self.log_scales).mixture(self.each(predicted, z))
        logit, log_derivative = mixture_logit(z, mixture)
        return ctx.hide(logit * math.exp(Logistic.log_scale)), ctx.total(log_derivative + Logistic.log_scale)

    def restore(self, z: Tensor, predicted: Tensor, ctx: Context) -> Tensor:
        logits, logit = self.each(predicted, z), z * math.exp(-Logistic.log_scale)
        category = categories_at(logit, logits)
        weight, below, above = (select(one, category) for one in _shares(logits))
        # How much of the category is on either side, from the nearer end of the line, where digits are left.
        low, high = torch.sigmoid(logit), torch.sigmoid(-logit)
        left = torch.where(logit < 0, low - below, weight + above - high)
        right = torch.where(logit < 0, weight + below - low, high - above)
        tiny = torch.finfo(z.dtype).tiny
        offset = STANDARD_SCALE * (left.clamp(min=tiny).log() - right.clamp(min=tiny).log())
        place = select(self.means.squeeze(-1).expand_as(logits), category)
        return ctx.hide(place + offset.clamp(-0.49 * SPACING, 0.49 * SPACING))


def categories_at(logit: Tensor, logits: Tensor) -> Tensor:
    """Where on the line of categories with `logits: [..., categories]` the quantile `logit: [...]` is.

    Example:
        >>> categories_at(torch.logit(torch.tensor([0.1, 0.6, 0.9])), torch.tensor([0.5, 0.25, 0.25]).log())
        tensor([0, 1, 2])
    """
    _, below, above = _shares(logits)
    ends = below[..., 1:].log() - above[..., :-1].log()
    return (ends < logit.unsqueeze(-1)).sum(-1)


def _shares(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Weights of categories, those below and those above, `[..., categories]` each."""
    weights = torch.softmax(logits, dim=-1)
    below = F.pad(weights[..., :-1].cumsum(-1), (1, 0))
    above = F.pad(weights[..., 1:].flip(-1).cumsum(-1).flip(-1), (0, 1))
    return weights, below, above
