"""Averages over neighbours in one GPU program per graph and head, for at most 64 nodes.

Plain torch moves the values of all nodes through memory several times, transposed, around matrix products
too small for a GPU's. Here a program holds a graph's attention matrix in registers and passes over the values
once; the backward pass recomputes the matrix.
"""
# A kernel is compiled, not run, by Python: its values have no Python types.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

import torch
import triton
import triton.language as tl
from torch import Tensor

from catnf.kernels.neighbours import SLOPE


@triton.jit
def _leaky(score, SLOPE: tl.constexpr):
    return tl.where(score > 0, score, SLOPE * score)


@triton.jit
def _row(scores, b, part, h, nodes, stride, HEADS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.arange(0, BLOCK)
    offsets = (b * nodes + rows) * stride + part * HEADS + h
    return tl.load(scores + offsets, mask=rows < nodes, other=0.0).to(tl.float32)


@triton.jit
def _attend(
    scores, adjacency, b, h, nodes, stride, HEADS: tl.constexpr, BLOCK: tl.constexpr, SLOPE: tl.constexpr
):
    """Raw scores of the neighbours `[BLOCK, BLOCK]` and of the node itself `[BLOCK]`, and their weights."""
    looking = _row(scores, b, 0, h, nodes, stride, HEADS, BLOCK)
    pairs = looking[:, None] + _row(scores, b, 1, h, nodes, stride, HEADS, BLOCK)[None, :]
    alone = looking + _row(scores, b, 2, h, nodes, stride, HEADS, BLOCK)
    rows = tl.arange(0, BLOCK)
    offsets = (b * nodes + rows[:, None]) * nodes + rows[None, :]
    inside = (rows[:, None] < nodes) & (rows[None, :] < nodes)
    edge = tl.load(adjacency + offsets, mask=inside, other=0) != 0
    weights = tl.where(edge, _leaky(pairs, SLOPE), -float("inf"))
    weight = _leaky(alone, SLOPE)
    highest = tl.maximum(tl.max(weights, 1), weight)
    weights = tl.exp(weights - highest[:, None])
    weight = tl.exp(weight - highest)
    total = tl.sum(weights, 1) + weight
    return pairs, alone, weights / total[:, None], weight / total


@triton.jit
def _cell(b, h, start, nodes, parts, WIDTH: tl.constexpr, HEADS: tl.constexpr,
          BLOCK: tl.constexpr, CHUNK: tl.constexpr):  # fmt: skip
    """Offsets of `CHUNK` columns of a head in the first of `parts` side by side, and which of them exist."""
    rows, columns = tl.arange(0, BLOCK), start + tl.arange(0, CHUNK)
    hidden = HEADS * WIDTH
    offsets = (b * nodes + rows[:, None]) * parts * hidden + h * WIDTH + columns[None, :]
    return offsets, (rows[:, None] < nodes) & (columns[None, :] < WIDTH)


@triton.jit
def _forward(
    values, scores, adjacency, out, nodes, stride,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, CHUNK: tl.constexpr, SLOPE: tl.constexpr,
):  # fmt: skip
    b, h = tl.program_id(0) // HEADS, tl.program_id(0) % HEADS
    _, _, weights, weight = _attend(scores, adjacency, b, h, nodes, stride, HEADS, BLOCK, SLOPE)
    for start in range(0, WIDTH, CHUNK):
        offsets, real = _cell(b, h, start, nodes, 2, WIDTH, HEADS, BLOCK, CHUNK)
        neighbour = tl.load(values + offsets, mask=real, other=0.0)
        own = tl.load(values + offsets + HEADS * WIDTH, mask=real, other=0.0).to(tl.float32)
        mixed = tl.dot(weights.to(neighbour.dtype), neighbour, input_precision="ieee") + weight[:, None] * own
        mixed = 0.5 * mixed * (1.0 + tl.erf(mixed * 0.7071067811865476))
        offsets, real = _cell(b, h, start, nodes, 1, WIDTH, HEADS, BLOCK, CHUNK)
        tl.store(out + offsets, mixed.to(out.dtype.element_ty), mask=real)


@triton.jit
def _backward(
    values, scores, adjacency, grad, grad_values, grad_scores, nodes, stride,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, CHUNK: tl.constexpr, SLOPE: tl.constexpr,
):  # fmt: skip
    b, h = tl.program_id(0) // HEADS, tl.program_id(0) % HEADS
    pairs, alone, weights, weight = _attend(scores, adjacency, b, h, nodes, stride, HEADS, BLOCK, SLOPE)
    grad_weights = tl.zeros([BLOCK, BLOCK], tl.float32)
    grad_weight = tl.zeros([BLOCK], tl.float32)
    for start in range(0, WIDTH, CHUNK):
        inner, real = _cell(b, h, start, nodes, 2, WIDTH, HEADS, BLOCK, CHUNK)
        outer, _ = _cell(b, h, start, nodes, 1, WIDTH, HEADS, BLOCK, CHUNK)
        neighbour = tl.load(values + inner, mask=real, other=0.0)
        own = tl.load(values + inner + HEADS * WIDTH, mask=real, other=0.0).to(tl.float32)
        g = tl.load(grad + outer, mask=real, other=0.0).to(tl.float32)
        low = weights.to(neighbour.dtype)
        mixed = tl.dot(low, neighbour, input_precision="ieee") + weight[:, None] * own
        share = 0.5 * (1.0 + tl.erf(mixed * 0.7071067811865476))
        g = g * (share + mixed * tl.exp(-0.5 * mixed * mixed) * 0.3989422804014327)
        grad_weight += tl.sum(own * g, 1)
        own_gradient = weight[:, None] * g
        g = g.to(neighbour.dtype)
        grad_weights += tl.dot(g, tl.trans(neighbour), input_precision="ieee")
        shown_gradient = tl.dot(tl.trans(low), g, input_precision="ieee")
        kind = grad_values.dtype.element_ty
        tl.store(grad_values + inner, shown_gradient.to(kind), mask=real)
        tl.store(grad_values + inner + HEADS * WIDTH, own_gradient.to(kind), mask=real)
    mean = tl.sum(weights * grad_weights, 1) + weight * grad_weight
    grad_pairs = weights * (grad_weights - mean[:, None]) * tl.where(pairs > 0, 1.0, SLOPE)
    grad_alone = weight * (grad_weight - mean) * tl.where(alone > 0, 1.0, SLOPE)
    rows = tl.arange(0, BLOCK)
    place = grad_scores + (b * nodes + rows) * 3 * HEADS + h
    kind = grad_scores.dtype.element_ty
    tl.store(place, (tl.sum(grad_pairs, 1) + grad_alone).to(kind), mask=rows < nodes)
    tl.store(place + HEADS, tl.sum(grad_pairs, 0).to(kind), mask=rows < nodes)
    tl.store(place + 2 * HEADS, grad_alone.to(kind), mask=rows < nodes)


def _sizes(values: Tensor, heads: int) -> tuple[int, int, int, int]:
    """Width of a head, and rows, columns and warps of a program: the fastest of those tried on an H200."""
    nodes, width = values.shape[1], values.shape[2] // (2 * heads)
    block = max(16, triton.next_power_of_2(nodes))
    chunk = min(64 if block > 32 else 32, max(16, width & -width))  # divides the width where a fair size does
    return width, block, chunk, {16: 1, 32: 2}.get(block, 4)


def _with_dense_rows(scores: Tensor) -> Tensor:
    """`scores`, copied unless every node's numbers lie together and nodes follow at one distance."""
    batch, nodes, _ = scores.shape
    dense = scores.stride(2) == 1 and (batch == 1 or scores.stride(0) == nodes * scores.stride(1))
    return scores if dense else scores.contiguous()


@torch.library.custom_op(
    "catnf::fused_average",
    mutates_args=(),
    schema="(Tensor values, Tensor scores, Tensor adjacency, int heads) -> Tensor",
)
def fused_average(values, scores, adjacency, heads):
    """`catnf.kernels.neighbours.average_neighbours` on a GPU."""
    batch, nodes, both = values.shape
    values, scores = values.contiguous(), _with_dense_rows(scores)
    width, block, chunk, warps = _sizes(values, heads)
    out = torch.empty(batch, nodes, both // 2, device=values.device, dtype=values.dtype)
    _forward[(batch * heads,)](
        values, scores, adjacency.contiguous().view(torch.uint8), out, nodes, scores.stride(1),
        HEADS=heads, WIDTH=width, BLOCK=block, CHUNK=chunk, SLOPE=SLOPE, num_warps=warps,
    )  # fmt: skip
    return out


@torch.library.custom_op(
    "catnf::fused_average_backward",
    mutates_args=(),
    schema="(Tensor values, Tensor scores, Tensor adjacency, Tensor grad, int heads) -> (Tensor, Tensor)",
)
def fused_average_backward(values, scores, adjacency, grad, heads):
    """The gradients of `values` and `scores` from that of the output."""
    batch, nodes, _ = values.shape
    values, scores = values.contiguous(), _with_dense_rows(scores)
    width, block, chunk, warps = _sizes(values, heads)
    grad_values = torch.empty_like(values)
    grad_scores = torch.empty(scores.shape, device=scores.device, dtype=scores.dtype)
    _backward[(batch * heads,)](
        values, scores, adjacency.contiguous().view(torch.uint8), grad.contiguous(), grad_values, grad_scores,
        nodes, scores.stride(1),
        HEADS=heads, WIDTH=width, BLOCK=block, CHUNK=chunk, SLOPE=SLOPE, num_warps=warps,
    )  # fmt: skip
    return grad_values, grad_scores


@fused_average.register_fake
def _(values, scores, adjacency, heads):
    return values.new_empty(values.shape[0], values.shape[1], values.shape[2] // 2)


@fused_average_backward.register_fake
def _(values, scores, adjacency, grad, heads):
    return torch.empty_like(values, memory_format=torch.contiguous_format), scores.new_empty(scores.shape)


def _setup(ctx, inputs, output):
    values, scores, adjacency, heads = inputs
    ctx.save_for_backward(values, scores, adjacency)
    ctx.heads = heads


def _gradient(ctx, grad):
    values, scores, adjacency = ctx.saved_tensors
    return (*fused_average_backward(values, scores, adjacency, grad, ctx.heads), None, None)


fused_average.register_autograd(_gradient, setup_context=_setup)
