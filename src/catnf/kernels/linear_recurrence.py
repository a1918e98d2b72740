"""Numbers that are remembered from element to element of a text, and ever renewed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def remember(openness: Tensor, offered: Tensor) -> Tensor:
    """`s_t = (1 - g_t) s_{t-1} + g_t offered_t` with `g_t = sigmoid(openness_t)` and `s_{-1} = 0`.

    Unlike in an LSTM, gates do not depend on what is remembered: only this sum has to go from element to
    element, and all matrix products can be made at once.

    Args:
        openness: how far the gate is open for what is offered, `[batch, elements, width]`.
        offered: `[batch, elements, width]`, of the same dtype.

    Returns:
        `[batch, elements, width]`, in that dtype; sums are kept in float32.
    """
    if openness.is_cuda:
        from catnf.kernels.linear_recurrence_triton import fused_remember

        out: Tensor = fused_remember(openness, offered)
        return out
    return remember_plain(openness, offered)


def remember_plain(openness: Tensor, offered: Tensor) -> Tensor:
    """The same in plain torch, for any device."""
    out: Tensor = _Remember.apply(openness, offered)  # type: ignore[no-untyped-call]
    return out


class _Remember(torch.autograd.Function):
    """One element after another; going back through each by autograd would take several times as long."""

    @staticmethod
    def forward(ctx: Any, openness: Tensor, offered: Tensor) -> Tensor:
        gate = _exact(openness).sigmoid().transpose(0, 1).contiguous()
        renewed = gate * _exact(offered).transpose(0, 1)
        kept = 1.0 - gate
        states = torch.empty_like(renewed)
        state = torch.zeros_like(renewed[0])
        for place in range(len(renewed)):
            state = torch.addcmul(renewed[place], kept[place], state, out=states[place])
        ctx.save_for_backward(gate, offered, states)
        return states.transpose(0, 1).to(offered.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        gate, offered, states = ctx.saved_tensors
        gradient = _exact(grads[0]).transpose(0, 1).contiguous()
        kept = 1.0 - gate
        totals = torch.empty_like(gradient)
        total = torch.zeros_like(gradient[0])
        for place in range(len(gradient) - 1, -1, -1):
            later = kept[place + 1] * total if place + 1 < len(gradient) else total
            total = torch.add(gradient[place], later, out=totals[place])
        before = torch.cat([torch.zeros_like(states[:1]), states[:-1]])
        offer = _exact(offered).transpose(0, 1)
        of_openness = totals * (offer - before) * gate * kept
        of_offered = totals * gate
        dtype = offered.dtype
        return of_openness.transpose(0, 1).to(dtype), of_offered.transpose(0, 1).to(dtype)


def _exact(values: Tensor) -> Tensor:
    return values if values.dtype == torch.float64 else values.float()
