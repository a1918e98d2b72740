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

_MAGNITUDE = 8.0
"""In logarithms of probabilities: those closer than this may lie in any order."""


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
        return F.one_hot(_nearest(z.squeeze(-1), len(self.means)), len(self.means)).to(z.dtype)

    def change(self, z: Tensor, predicted: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        logit, log_derivative = quantiles_of(z, self.each(predicted, z))
        return ctx.hide(logit * math.exp(Logistic.log_scale)), ctx.total(log_derivative + Logistic.log_scale)

    def restore(self, z: Tensor, predicted: Tensor, ctx: Context) -> Tensor:
        logits, logit = self.each(predicted, z), z * math.exp(-Logistic.log_scale)
        order = _order(logits)
        shares = _shares(logits.gather(-1, order))
        place = _place(logit, shares)
        weight, below, above = (select(one, place) for one in shares)
        # How much of the category is on either side, from the nearer end of the line, where digits are left.
        low, high = torch.sigmoid(logit), torch.sigmoid(-logit)
        left = torch.where(logit < 0, low - below, weight + above - high)
        right = torch.where(logit < 0, weight + below - low, high - above)
        tiny = torch.finfo(z.dtype).tiny
        offset = STANDARD_SCALE * (left.clamp(min=tiny).log() - right.clamp(min=tiny).log())
        mean = select(self.means.squeeze(-1).expand_as(logits), select(order, place))
        return ctx.hide(mean + offset.clamp(-0.49 * SPACING, 0.49 * SPACING))


def quantiles_of(z: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
    """Where latents are on the line of categories: the logit of the share below, and its log-derivative.

    Args:
        z: latents of a `SpacedEncoding`, `[...]`.
        logits: of the categories, `[..., categories]`.
    """
    categories = logits.shape[-1]
    order, category = _order(logits), _nearest(z, categories)
    place = (order == category.unsqueeze(-1)).long().argmax(-1)
    moved = z + SPACING * (place - category)  # whole cells change places, so that no volume changes
    mixture = Anchors.spaced(categories, z.device).mixture(logits.gather(-1, order), 0)
    return mixture_logit(moved, mixture)


def categories_at(logit: Tensor, logits: Tensor) -> Tensor:
    """Where on the line of categories with `logits: [..., categories]` the quantile `logit: [...]` is.

    Example:
        >>> categories_at(torch.logit(torch.tensor([0.1, 0.6, 0.9])), torch.tensor([0.5, 0.2, 0.3]).log())
        tensor([0, 2, 1])
    """
    order = _order(logits)
    return select(order, _place(logit, _shares(logits.gather(-1, order))))


def _order(logits: Tensor) -> Tensor:
    """Categories as they lie on the line, `[..., categories]`: likely ones inside, unlikely ones outside.

    At the ends of the line numbers are finest: there even a category of a millionth of a millionth is wider
    than their spacing, which between two likely ones it would not be. Only orders of magnitude count, so that
    rounding does not change the order.
    """
    magnitudes = (torch.log_softmax(logits, dim=-1) / _MAGNITUDE).round()
    rising = torch.arange(logits.shape[-1], device=logits.device)
    return magnitudes.argsort(stable=True)[..., torch.cat([rising[::2], rising[1::2].flip(0)])]


def _nearest(z: Tensor, categories: int) -> Tensor:
    """The category that `z: [...]` stands for."""
    return (z / SPACING + 0.5 * (categories - 1)).round().long().clamp(0, categories - 1)


def _place(logit: Tensor, shares: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """How many categories of a line lie below the quantile `logit: [...]`."""
    _, below, above = shares
    ends = below[..., 1:].log() - above[..., :-1].log()
    return (ends < logit.unsqueeze(-1)).sum(-1)


def _shares(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Weights of categories, those below and those above, `[..., categories]` each."""
    weights = torch.softmax(logits, dim=-1)
    below = F.pad(weights[..., :-1].cumsum(-1), (1, 0))
    above = F.pad(weights[..., 1:].flip(-1).cumsum(-1).flip(-1), (0, 1))
    return weights, below, above
