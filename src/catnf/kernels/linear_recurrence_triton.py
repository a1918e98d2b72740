"""A gated memory on a GPU: a program goes through a text, some numbers of its memory in registers.

Several elements are read at once and summed up by a parallel scan, so that a program seldom waits for the
device's memory; the backward pass goes the other way and computes the gates anew.
"""
# A kernel is compiled, not run, by Python: its values have no Python types.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

import torch
import triton
import triton.language as tl

_ROWS, _COLUMNS, _WARPS = 16, 64, 2
"""Elements and numbers of a tile, and the warps that share it."""


@triton.jit
def _then(kept, added, kept_next, added_next):
    """`s -> kept * s + added`, then the next such map, as one map."""
    return kept * kept_next, added * kept_next + added_next


@triton.jit
def _tile(start, ELEMENTS: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Offsets of the elements from `start` on, which of them exist, and their places."""
    rows = start + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    first = tl.program_id(0).to(tl.int64) * ELEMENTS
    offsets = (first + rows[:, None]) * WIDTH + columns[None, :]
    inside = (columns[None, :] < WIDTH) & (rows[:, None] >= 0)
    return offsets, inside & (rows[:, None] < ELEMENTS), rows


@triton.jit
def _row(values, rows, row):
    """One row of a tile."""
    return tl.sum(tl.where(rows[:, None] == row, values, 0.0), 0)


@triton.jit
def _forward(
    openness, offered, states,
    ELEMENTS: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    carried = tl.zeros([COLUMNS], tl.float32)
    for start in range(0, ELEMENTS, ROWS):
        offsets, real, rows = _tile(start, ELEMENTS, WIDTH, ROWS, COLUMNS)
        x = tl.load(openness + offsets, mask=real, other=0.0).to(tl.float32)
        offer = tl.load(offered + offsets, mask=real, other=0.0).to(tl.float32)
        kept, added = tl.associative_scan((tl.sigmoid(-x), tl.sigmoid(x) * offer), 0, _then)
        state = kept * carried[None, :] + added
        tl.store(states + offsets, state.to(states.dtype.element_ty), mask=real)
        carried = _row(state, rows, start + ROWS - 1)


@triton.jit
def _backward(
    openness, offered, states, grad, grad_openness, grad_offered,
    ELEMENTS: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    carried = tl.zeros([COLUMNS], tl.float32)
    for passed in range(0, ELEMENTS, ROWS):
        start = (ELEMENTS - 1) // ROWS * ROWS - passed
        offsets, real, rows = _tile(start, ELEMENTS, WIDTH, ROWS, COLUMNS)
        after, there, _ = _tile(start + 1, ELEMENTS, WIDTH, ROWS, COLUMNS)
        before, was, _ = _tile(start - 1, ELEMENTS, WIDTH, ROWS, COLUMNS)
        g = tl.load(grad + offsets, mask=real, other=0.0).to(tl.float32)
        kept_next = tl.sigmoid(-tl.load(openness + after, mask=there, other=0.0).to(tl.float32))
        kept, added = tl.associative_scan((kept_next, g), 0, _then, reverse=True)
        total = kept * carried[None, :] + added
        carried = _row(total, rows, start)
        x = tl.load(openness + offsets, mask=real, other=0.0).to(tl.float32)
        offer = tl.load(offered + offsets, mask=real, other=0.0).to(tl.float32)
        previous = tl.load(states + before, mask=was & real, other=0.0).to(tl.float32)
        gate = tl.sigmoid(x)
        kind = grad_offered.dtype.element_ty
        tl.store(grad_offered + offsets, (total * gate).to(kind), mask=real)
        change = total * (offer - previous) * gate * tl.sigmoid(-x)
        tl.store(grad_openness + offsets, change.to(kind), mask=real)


def _grid(batch: int, width: int) -> tuple[int, int]:
    return batch, triton.cdiv(width, _COLUMNS)


@torch.library.custom_op(
    "catnf::fused_remember", mutates_args=(), schema="(Tensor openness, Tensor offered) -> Tensor"
)
def fused_remember(openness, offered):
    """`catnf.kernels.linear_recurrence.remember` on a GPU."""
    batch, elements, width = offered.shape
    openness, offered = openness.contiguous(), offered.contiguous()
    states = torch.empty_like(offered)
    _forward[_grid(batch, width)](
        openness, offered, states,
        ELEMENTS=elements, WIDTH=width, ROWS=_ROWS, COLUMNS=_COLUMNS, num_warps=_WARPS,
    )  # fmt: skip
    return states


@torch.library.custom_op(
    "catnf::fused_remember_backward",
    mutates_args=(),
    schema="(Tensor openness, Tensor offered, Tensor states, Tensor grad) -> (Tensor, Tensor)",
)
def fused_remember_backward(openness, offered, states, grad):
    """The gradients of `openness` and `offered` from that of the `states`."""
    batch, elements, width = offered.shape
    openness, offered = openness.contiguous(), offered.contiguous()
    grad_openness, grad_offered = torch.empty_like(openness), torch.empty_like(offered)
    _backward[_grid(batch, width)](
        openness, offered, states, grad.contiguous(), grad_openness, grad_offered,
        ELEMENTS=elements, WIDTH=width, ROWS=_ROWS, COLUMNS=_COLUMNS, num_warps=_WARPS,
    )  # fmt: skip
    return grad_openness, grad_offered


@fused_remember.register_fake
def _(openness, offered):
    return offered.new_empty(offered.shape)


@fused_remember_backward.register_fake
def _(openness, offered, states, grad):
    return openness.new_empty(openness.shape), offered.new_empty(offered.shape)


def _setup(ctx, inputs, output):
    ctx.save_for_backward(*inputs, output)


def _gradient(ctx, grad):
    return fused_remember_backward(*ctx.saved_tensors, grad)


fused_remember.register_autograd(_gradient, setup_context=_setup)
