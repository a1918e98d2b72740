"""Self-attention over the few elements of an example."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

FUSED_ELEMENTS = 64
"""Up to this many elements one GPU program holds an example's whole attention matrix in registers."""


def attention(qkv: Tensor, heads: int, mask: Tensor | None = None) -> Tensor:
    """Multi-head self-attention of examples small enough to be seen whole.

    Args:
        qkv: queries, keys and values side by side, `[batch, elements, 3 * hidden]`.
        heads: attention heads; `hidden` is a multiple of it.
        mask: `[batch, elements]`, true where an element may be attended to.

    Returns:
        `[batch, elements, hidden]`.
    """
    width = qkv.shape[-1] // (3 * heads)
    if qkv.is_cuda and qkv.shape[1] <= FUSED_ELEMENTS and width >= 16 and width & (width - 1) == 0:
        from catnf.kernels.attention_triton import fused_attention

        out: Tensor = fused_attention(qkv, mask, heads)
        return out
    return attention_plain(qkv, heads, mask)


def attention_plain(qkv: Tensor, heads: int, mask: Tensor | None = None) -> Tensor:
    """The same in plain torch, for any device and any number of elements."""
    batch, elements, _ = qkv.shape
    q, k, v = qkv.view(batch, elements, 3, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
    bias = None
    if mask is not None:
        # Finite, so that an example of padding alone gives numbers and not NaN.
        bias = torch.where(mask, 0.0, -1e9).to(qkv.dtype)[:, None, None, :]
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    return out.transpose(1, 2).reshape(batch, elements, -1)
