"""Where the categories are in latent space, for flows that start from there."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.flows.base import STANDARD_SCALE, Logistic
from catnf.flows.mixture import Mixture
from catnf.nets.linear import lookup

SPACING = 32.0
"""Between the means of categories that are never taken for each other, in standard deviations."""

_NOISE = Logistic()


class Anchors(NamedTuple):
    """The logistics of the categories, `[categories, channels]` each, in units of the base's scale."""

    means: Tensor
    log_scales: Tensor

    @classmethod
    def spaced(cls, categories: int, device: torch.device | None = None) -> Anchors:
        """Categories far apart on a line, in one channel."""
        places = torch.arange(categories, dtype=torch.float32, device=device) - 0.5 * (categories - 1)
        return cls(SPACING * places.unsqueeze(1), torch.zeros(categories, 1, device=device))

    def mixture(self, logits: Tensor, channel: int | None = None) -> Mixture:
        """A mixture of them for every channel, or for one: `logits: [..., channels, categories]`."""
        means, log_scales = self.of(channel)
        # Kernels want all of their numbers beside each other.
        return Mixture(logits, means.expand_as(logits), (log_scales + Logistic.log_scale).expand_as(logits))

    def log_densities(self, z: Tensor, channel: int | None = None) -> Tensor:
        """Of `z: [..., channels]` under every category, by channel: `[..., channels, categories]`."""
        return _log_densities(z.unsqueeze(-1), *self.of(channel))

    def joint_log_densities(self, z: Tensor) -> Tensor:
        """Of `z: [..., channels]` under every category, over all channels: `[..., categories]`."""
        out: Tensor = _JointLogDensities.apply(z, self.means, self.log_scales)  # type: ignore[no-untyped-call]
        return out

    def of(self, channel: int | None) -> tuple[Tensor, Tensor]:
        """Means and log-scales `[channels, categories]`, or `[categories]` for one channel."""
        if channel is None:
            return self.means.T, self.log_scales.T
        return self.means[:, channel], self.log_scales[:, channel]


class _JointLogDensities(torch.autograd.Function):
    """`sum_d log q(z_d | k)`, one channel after another, keeping nothing of the size of the outcome.

    Automatic differentiation would keep several tensors `[..., categories]` for every channel.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor, means: Tensor, log_scales: Tensor) -> Tensor:
        ctx.save_for_backward(z, means, log_scales)
        constant = -(log_scales + Logistic.log_scale).sum(-1)
        pieces = []
        # In place: new memory would cost as much time as the work itself on a CPU.
        for piece in _pieces(z, len(means)):
            total = constant.repeat(len(piece), 1)
            product = torch.ones_like(total)
            for channel in range(z.shape[-1]):
                # log q = -|u| - 2 log(1 + exp(-|u|)) - log s: one logarithm of a product for all channels.
                away = _standard(piece, means, log_scales, channel)[0].abs_().neg_()
                total += away
                product *= away.exp_().add_(1.0)
                if channel % _SAFE == _SAFE - 1 or channel == z.shape[-1] - 1:
                    total.sub_(product.log_(), alpha=2.0)
                    product.fill_(1.0)
            pieces.append(total)
        return torch.cat(pieces).view(*z.shape[:-1], len(means))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        z, means, log_scales = ctx.saved_tensors
        of_z, of_means, of_log_scales = [], torch.zeros_like(means.T), torch.zeros_like(means.T)
        for piece, out in zip(_pieces(z, len(means)), _pieces(gradient, len(means)), strict=True):
            columns, towards, wider = [], [], []
            for channel in range(z.shape[-1]):
                # With u in units of the logistic's scale s, d log q / du = -tanh(u / 2).
                u, inverse = _standard(piece, means, log_scales, channel)
                pull = (0.5 * u).tanh_().mul_(out)
                columns.append(-(pull * inverse).sum(-1))
                towards.append(pull.sum(0) * inverse)
                wider.append(pull.mul_(u).sub_(out).sum(0))
            of_z.append(torch.stack(columns, -1))
            of_means, of_log_scales = of_means + torch.stack(towards), of_log_scales + torch.stack(wider)
        return torch.cat(of_z).view_as(z), of_means.T, of_log_scales.T


_SAFE = 64
"""Of so many channels a product of numbers up to 2 is far from the largest number."""
_CACHED = 1 << 17
"""Numbers that a core works on fastest: its cache holds a few tensors of so many."""


def _pieces(values: Tensor, categories: int) -> tuple[Tensor, ...]:
    """Rows of `values: [..., width]`, so few at once that a processor's cache holds them for all categories.

    A GPU takes all at once.
    """
    rows = values.reshape(-1, values.shape[-1])
    return (rows,) if values.is_cuda else torch.split(rows, max(1, _CACHED // categories))


def _standard(z: Tensor, means: Tensor, log_scales: Tensor, channel: int) -> tuple[Tensor, Tensor]:
    """A channel of `z: [rows, channels]` in units of every category's scale from its mean, and 1 / scale."""
    inverse = torch.exp(-log_scales[:, channel]) / STANDARD_SCALE
    return (z[:, channel : channel + 1] - means[:, channel]).mul_(inverse), inverse


def _log_densities(z: Tensor, means: Tensor, log_scales: Tensor) -> Tensor:
    return _NOISE.log_prob((z - means) * torch.exp(-log_scales)) - log_scales


class SymbolReader(nn.Module):
    """What a network over time sees of latents: a vector of the category they stand for.

    Otherwise a network would have to learn the borders between thousands of regions, which the anchors tell,
    and that it means nothing where in its region a latent is. The category is that of Bayes' rule, constant
    nearly everywhere: derivatives of the latents pass it by.

    Args:
        frequencies: the prior over categories, `[categories]`.
        vectors: of the categories, `[categories, features]`, where they start; `None` for the
            categories themselves, one-hot.
    """

    compile_unit = True
    log_prior: Tensor

    def __init__(self, frequencies: Tensor, vectors: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("log_prior", frequencies.clamp(min=1e-12).log())
        self.vectors = None if vectors is None else nn.Parameter(vectors)

    def forward(self, z: Tensor, anchors: Anchors, scores: Tensor | None = None) -> Tensor:
        """`z: [batch, elements, channels]` to `[batch, elements, features]`; `scores` of it, where known."""
        with torch.no_grad():
            known = anchors.joint_log_densities(z) if scores is None else scores
            x = (known + self.log_prior).argmax(-1)
        if self.vectors is None:
            return F.one_hot(x, known.shape[-1]).to(z.dtype)
        return lookup(self.vectors, x)


def read(
    z: Tensor, anchors: Anchors | None, reader: nn.Module | None, scores: Tensor | None = None
) -> Tensor:
    """What a network over time gets to see of latents `z`, with a reader or without."""
    return z if reader is None or anchors is None else reader(z, anchors, scores)
