"""The base distribution, which is also the noise of the encodings."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

STANDARD_SCALE = math.sqrt(3.0) / math.pi
"""Scale at which a logistic distribution has standard deviation 1."""

_EDGE = 5e-5
"""Uniform numbers are kept this far from 0 and 1: no sample lies in a tail that training never saw."""


def logistic_log_density(u: Tensor) -> Tensor:
    """Elementwise log-density of the logistic with scale 1, exact in both tails.

    Example:
        >>> logistic_log_density(torch.tensor([0.0, 1000.0]))
        tensor([   -1.3863, -1000.0000])
    """
    return F.logsigmoid(u) + F.logsigmoid(-u)


class Logistic:
    """Independent logistics with mean 0 and standard deviation 1."""

    log_scale = math.log(STANDARD_SCALE)

    def log_prob(self, z: Tensor) -> Tensor:
        """Elementwise log-density of `z`, of the same shape."""
        return logistic_log_density(z * (1.0 / STANDARD_SCALE)) - self.log_scale

    def sample(
        self,
        shape: tuple[int, ...],
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        temperature: float = 1.0,
    ) -> Tensor:
        """Draw a tensor of the given shape; `temperature` multiplies the standard deviation."""
        device = generator.device if generator is not None else device
        uniform = torch.rand(shape, generator=generator, device=device).clamp(_EDGE, 1.0 - _EDGE)
        return torch.logit(uniform) * (STANDARD_SCALE * temperature)
