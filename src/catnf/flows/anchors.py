"""Where the categories are in latent space, for flows that start from there."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

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
        total = _log_densities(z[..., :1], means[:, 0], log_scales[:, 0])
        for channel in range(1, z.shape[-1]):
            total = total + _log_densities(
                z[..., channel : channel + 1], means[:, channel], log_scales[:, channel]
            )
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        z, means, log_scales = ctx.saved_tensors
        of_z, of_means, of_log_scales = [], [], []
        every = tuple(range(z.dim() - 1))
        for channel in range(z.shape[-1]):
            # With u in units of the logistic's scale s, d log q / du = -tanh(u / 2).
            inverse = torch.exp(-log_scales[:, channel]) / STANDARD_SCALE
            u = (z[..., channel : channel + 1] - means[:, channel]) * inverse
            pull = gradient * torch.tanh(0.5 * u)
            towards = pull * inverse
            of_z.append(-towards.sum(-1))
            of_means.append(towards.sum(every))
            of_log_scales.append((pull * u - gradient).sum(every))
        return torch.stack(of_z, -1), torch.stack(of_means, -1), torch.stack(of_log_scales, -1)


def _log_densities(z: Tensor, means: Tensor, log_scales: Tensor) -> Tensor:
    return _NOISE.log_prob((z - means) * torch.exp(-log_scales)) - log_scales


class SymbolReader(nn.Module):
    """What a network over time sees of latents: a vector of the category they stand for.

    Otherwise a network would have to learn the borders between thousands of regions, which the anchors tell,
    and that it means nothing where in its region a latent is. The category is that of Bayes' rule, constant
    nearly everywhere: derivatives of the latents pass it by.

    Args:
        frequencies: the prior over categories, `[categories]`.
        vectors: of the categories, `[categories, features]`, where they start.
    """

    compile_unit = True
    log_prior: Tensor

    def __init__(self, frequencies: Tensor, vectors: Tensor) -> None:
        super().__init__()
        self.register_buffer("log_prior", frequencies.clamp(min=1e-12).log())
        self.vectors = nn.Parameter(vectors)

    def forward(self, z: Tensor, anchors: Anchors) -> Tensor:
        """`z: [batch, elements, channels]` to `[batch, elements, features]`."""
        with torch.no_grad():
            x = (anchors.joint_log_densities(z) + self.log_prior).argmax(-1)
        return lookup(self.vectors, x)


def read(z: Tensor, anchors: Anchors | None, reader: nn.Module | None) -> Tensor:
    """What a network over time gets to see of latents `z`, with a reader or without."""
    return z if reader is None or anchors is None else reader(z, anchors)
