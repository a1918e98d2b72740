"""The cumulative distribution of a mixture of logistics as an invertible map of the real line.

With `u_k = (x - mean_k) / scale_k`, the distribution function `F` and its complement are computed
separately in log-space, so that neither tail loses digits in float32:

    log F       = logsumexp_k(log pi_k + logsigmoid( u_k))
    log (1 - F) = logsumexp_k(log pi_k + logsigmoid(-u_k))

The map is `x -> log F - log(1 - F)`, the inverse is a bracketed Newton search in that logit space.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from catnf.flows.roots import Root, bracketed_newton

_MOST_IN_REGISTERS = 512
"""Logistics of a mixture that one GPU program can hold."""


class Mixture(NamedTuple):
    """Parameters of mixtures of logistics, each `[..., mixtures]` for values `[...]`."""

    logits: Tensor
    means: Tensor
    log_scales: Tensor


def mixture_logit(x: Tensor, mixture: Mixture) -> tuple[Tensor, Tensor]:
    """`logit F(x)` and the log of its derivative, both of the shape of `x`.

    Example:
        >>> one = Mixture(torch.zeros(1), torch.zeros(1), torch.zeros(1))  # one standard logistic: identity
        >>> mixture_logit(torch.tensor(30.0), one)
        (tensor(30.), tensor(0.))
    """
    log_weights = F.log_softmax(mixture.logits, dim=-1)
    u = (x.unsqueeze(-1) - mixture.means) * torch.exp(-mixture.log_scales)
    log_left, log_right = F.logsigmoid(u), F.logsigmoid(-u)
    log_cdf = torch.logsumexp(log_weights + log_left, dim=-1)
    log_survival = torch.logsumexp(log_weights + log_right, dim=-1)
    log_density = torch.logsumexp(log_weights + log_left + log_right - mixture.log_scales, dim=-1)
    return log_cdf - log_survival, log_density - log_cdf - log_survival


def mixture_logit_inverse(y: Tensor, mixture: Mixture) -> Root:
    """Solve `mixture_logit(x) = y`, differentiable in `y` and the parameters.

    `logit F(x)` lies between the smallest and the largest `u_k`, so that `mean_k + scale_k * y` over all
    components brackets the root. The gradient is that of the implicit function: a Newton step whose length
    is zero and whose derivative is exact.
    """
    with torch.no_grad():
        root = _solve(y, mixture)
    if not (torch.is_grad_enabled() and any(t.requires_grad for t in (y, *mixture))):
        return root
    value, log_derivative = mixture_logit(root.value, mixture)
    # Differences with themselves: on a plateau the slope is so small that even rounding would move the root.
    change = (value - value.detach()) - (y - y.detach())
    inverse_slope = torch.exp(-log_derivative.detach().clamp(min=-30.0))
    return Root(root.value - change * inverse_slope, root.converged)


def _solve(y: Tensor, mixture: Mixture) -> Root:
    if y.is_cuda and y.dtype == torch.float32 and mixture.logits.shape[-1] <= _MOST_IN_REGISTERS:
        from catnf.kernels.mixture_triton import solve

        return solve(y, Mixture(F.log_softmax(mixture.logits, dim=-1), mixture.means, mixture.log_scales))
    # Normalized twice, logits would round otherwise than on the way forth.
    return solve_plain(y, mixture)


def solve_plain(y: Tensor, mixture: Mixture) -> Root:
    """The root search in plain torch."""

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        value, log_derivative = mixture_logit(x, mixture)
        return value - y, log_derivative.exp()

    # By the same rounded scales as in the function, so that the root of a float64 is not beside the bracket.
    candidates = mixture.means + y.unsqueeze(-1) / torch.exp(-mixture.log_scales)
    bracket = candidates.amin(-1), candidates.amax(-1)
    if y.dtype == torch.float64:  # for what must come back to the last digit
        return bracketed_newton(function, *bracket, steps=60, tolerance=1e-11)
    return bracketed_newton(function, *bracket)
