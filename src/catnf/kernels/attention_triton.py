"""Attention over at most 64 elements in one GPU program per example and head.

General kernels cut long sequences into tiles of 64 or 128 and leave most of a tile empty here. This one
reads queries, keys and values once, keeps the whole attention matrix in registers, and its backward
pass recomputes it: memory traffic is the floor.
"""
# A kernel is compiled, not run, by Python: its values have no Python types.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

import math

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _load(pointer, b, h, part, elements, heads, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.arange(0, BLOCK)
    columns = tl.arange(0, WIDTH)
    hidden = heads * WIDTH
    offsets = (b * elements + rows[:, None]) * 3 * hidden + part * hidden + h * WIDTH + columns[None, :]
    return tl.load(pointer + offsets, mask=rows[:, None] < elements, other=0.0)


@triton.jit
def _store(pointer, value, b, h, part, elements, heads, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.arange(0, BLOCK)
    columns = tl.arange(0, WIDTH)
    hidden = heads * WIDTH
    offsets = (b * elements + rows[:, None]) * 3 * hidden + part * hidden + h * WIDTH + columns[None, :]
    tl.store(pointer + offsets, value.to(pointer.dtype.element_ty), mask=rows[:, None] < elements)


@triton.jit
def _probabilities(q, k, mask, b, elements, scale, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    visible = columns < elements
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    if MASKED:
        real = tl.load(mask + b * elements + columns, mask=visible, other=0) != 0
        scores = tl.where(real[None, :], scores, -1e9)
    scores = tl.where(visible[None, :], scores, -float("inf"))
    scores = tl.exp(scores - tl.max(scores, 1)[:, None])
    return scores / tl.sum(scores, 1)[:, None]


@triton.jit
def _forward(
    qkv, mask, out, elements, scale,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    b, h = tl.program_id(0) // HEADS, tl.program_id(0) % HEADS
    q = _load(qkv, b, h, 0, elements, HEADS, WIDTH, BLOCK)
    k = _load(qkv, b, h, 1, elements, HEADS, WIDTH, BLOCK)
    v = _load(qkv, b, h, 2, elements, HEADS, WIDTH, BLOCK)
    p = _probabilities(q, k, mask, b, elements, scale, MASKED, BLOCK)
    value = tl.dot(p.to(v.dtype), v, input_precision="ieee")
    rows, columns = tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    offsets = (b * elements + rows[:, None]) * HEADS * WIDTH + h * WIDTH + columns[None, :]
    tl.store(out + offsets, value.to(out.dtype.element_ty), mask=rows[:, None] < elements)


@triton.jit
def _backward(
    qkv, mask, grad, grad_qkv, elements, scale,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    b, h = tl.program_id(0) // HEADS, tl.program_id(0) % HEADS
    q = _load(qkv, b, h, 0, elements, HEADS, WIDTH, BLOCK)
    k = _load(qkv, b, h, 1, elements, HEADS, WIDTH, BLOCK)
    v = _load(qkv, b, h, 2, elements, HEADS, WIDTH, BLOCK)
    rows, columns = tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    offsets = (b * elements + rows[:, None]) * HEADS * WIDTH + h * WIDTH + columns[None, :]
    g = tl.load(grad + offsets, mask=rows[:, None] < elements, other=0.0)
    p = _probabilities(q, k, mask, b, elements, scale, MASKED, BLOCK)
    grad_v = tl.dot(tl.trans(p.to(g.dtype)), g, input_precision="ieee")
    grad_p = tl.dot(g, tl.trans(v), input_precision="ieee")
    grad_s = p * (grad_p - tl.sum(p * grad_p, 1)[:, None]) * scale
    grad_s = grad_s.to(q.dtype)
    _store(grad_qkv, tl.dot(grad_s, k, input_precision="ieee"), b, h, 0, elements, HEADS, WIDTH, BLOCK)
    _store(
        grad_qkv, tl.dot(tl.trans(grad_s), q, input_precision="ieee"), b, h, 1, elements, HEADS, WIDTH, BLOCK
    )
    _store(grad_qkv, grad_v, b, h, 2, elements, HEADS, WIDTH, BLOCK)


def _sizes(qkv: Tensor, heads: int) -> tuple[int, int, int, float]:
    elements, width = qkv.shape[1], qkv.shape[2] // (3 * heads)
    return elements, width, max(16, triton.next_power_of_2(elements)), 1.0 / math.sqrt(width)


@torch.library.custom_op(
    "catnf::fused_attention", mutates_args=(), schema="(Tensor qkv, Tensor? mask, int heads) -> Tensor"
)
def fused_attention(qkv, mask, heads):
    """`catnf.kernels.attention.attention` on a GPU; `qkv: [batch, elements, 3 * hidden]`."""
    elements, width, block, scale = _sizes(qkv, heads)
    qkv = qkv.contiguous()
    out = torch.empty(qkv.shape[0], elements, heads * width, device=qkv.device, dtype=qkv.dtype)
    _forward[(qkv.shape[0] * heads,)](
        qkv, _bytes(mask, qkv), out, elements, scale,
        HEADS=heads, WIDTH=width, BLOCK=block, MASKED=mask is not None, num_warps=1 if block <= 16 else 4,
    )  # fmt: skip
    return out


@torch.library.custom_op(
    "catnf::fused_attention_backward",
    mutates_args=(),
    schema="(Tensor qkv, Tensor? mask, Tensor grad, int heads) -> Tensor",
)
def fused_attention_backward(qkv, mask, grad, heads):
    """The gradient of `qkv`, of its shape, from that of the output `grad: [batch, elements, hidden]`."""
    elements, width, block, scale = _sizes(qkv, heads)
    qkv = qkv.contiguous()
    grad_qkv = torch.empty_like(qkv)
    _backward[(qkv.shape[0] * heads,)](
        qkv, _bytes(mask, qkv), grad.contiguous(), grad_qkv, elements, scale,
        HEADS=heads, WIDTH=width, BLOCK=block, MASKED=mask is not None, num_warps=1 if block <= 16 else 4,
    )  # fmt: skip
    return grad_qkv


def _bytes(mask: Tensor | None, qkv: Tensor) -> Tensor:
    return qkv if mask is None else mask.contiguous().view(torch.uint8)


@fused_attention.register_fake
def _(qkv, mask, heads):
    return qkv.new_empty(qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3)


@fused_attention_backward.register_fake
def _(qkv, mask, grad, heads):
    return torch.empty_like(qkv, memory_format=torch.contiguous_format)


def _setup(ctx, inputs, output):
    qkv, mask, heads = inputs
    ctx.save_for_backward(qkv, mask)
    ctx.heads = heads


def _gradient(ctx, grad):
    qkv, mask = ctx.saved_tensors
    return fused_attention_backward(qkv, mask, grad, ctx.heads), None, None


fused_attention.register_autograd(_gradient, setup_context=_setup)
