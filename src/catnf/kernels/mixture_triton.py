"""The root search of mixture couplings with every iteration in registers: one launch instead of hundreds."""
# A kernel is compiled, not run, by Python: its values have no Python types.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

import torch
import triton
import triton.language as tl
from torch import Tensor

from catnf.flows.mixture import Mixture
from catnf.flows.roots import Root


@triton.jit
def _logsigmoid(x):
    return tl.minimum(x, 0.0) - tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit
def _logsumexp(x):
    top = tl.max(x, 1)
    return top + tl.log(tl.sum(tl.exp(x - top[:, None]), 1))


@triton.jit
def _search(
    y, log_weights, means, log_scales, value, converged, count, tolerance,
    STEPS: tl.constexpr, MIXTURES: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.arange(0, PADDED)
    valid = (rows[:, None] < count) & (columns[None, :] < MIXTURES)
    offsets = rows[:, None] * MIXTURES + columns[None, :]
    target = tl.load(y + rows, mask=rows < count, other=0.0)
    # Padded components have no weight, and copy the first component elsewhere so that brackets stay right.
    first = rows[:, None] * MIXTURES + columns[None, :] * 0
    inside = (rows[:, None] < count) & (columns[None, :] >= 0)
    lw = tl.load(log_weights + offsets, mask=valid, other=-1e30)
    mean = tl.where(
        valid, tl.load(means + offsets, mask=valid, other=0.0), tl.load(means + first, mask=inside, other=0.0)
    )
    ls = tl.where(
        valid,
        tl.load(log_scales + offsets, mask=valid, other=0.0),
        tl.load(log_scales + first, mask=inside, other=0.0),
    )
    inverse_scale = tl.exp(-ls)
    candidates = mean + target[:, None] / inverse_scale
    low, high = tl.min(candidates, 1), tl.max(candidates, 1)
    x = 0.5 * (low + high)
    before = high - low
    step = high - low
    last = step
    settled = step != step
    for _ in range(STEPS):
        u = (x[:, None] - mean) * inverse_scale
        left, right = _logsigmoid(u), _logsigmoid(-u)
        cdf, survival = _logsumexp(lw + left), _logsumexp(lw + right)
        g = cdf - survival - target
        last = g
        slope = tl.exp(_logsumexp(lw + left + right - ls) - cdf - survival)
        low = tl.where(g <= 0, x, low)
        high = tl.where(g >= 0, x, high)
        change = -g / tl.maximum(slope, 1e-12)
        settled = tl.abs(change) <= tolerance * (1.0 + tl.abs(x))
        newton = x + change
        newton = tl.where(settled, tl.minimum(tl.maximum(newton, low), high), newton)
        shrinking = tl.abs(change) <= 0.5 * tl.abs(before)
        accept = (newton >= low) & (newton <= high) & (shrinking | settled)
        new = tl.where(accept, newton, 0.5 * (low + high))
        before = step
        step = new - x
        x = new
    tl.store(value + rows, x, mask=rows < count)
    # A function that gives no number moves nothing, which is not convergence: NaN differs from itself.
    good = (settled | (tl.abs(step) <= tolerance * (1.0 + tl.abs(x)))) & (last == last)
    tl.store(converged + rows, good, mask=rows < count)


def solve(y: Tensor, mixture: Mixture, steps: int = 20, tolerance: float = 1e-5) -> Root:
    """`catnf.flows.mixture.solve_plain` on a GPU; `y: [...]`, parameters `[..., mixtures]`."""
    return Root(*mixture_root(y, mixture.logits, mixture.means, mixture.log_scales, steps, tolerance))


@torch.library.custom_op(
    "catnf::mixture_root",
    mutates_args=(),
    schema="(Tensor y, Tensor log_weights, Tensor means, Tensor log_scales, int steps, float tolerance) "
    "-> (Tensor, Tensor)",
)
def mixture_root(y, log_weights, means, log_scales, steps, tolerance):
    """The root and whether it converged, both of the shape of `y`; opaque to the compiler."""
    mixtures = means.shape[-1]
    flat = y.contiguous().view(-1)
    value = torch.empty_like(flat)
    converged = torch.empty(flat.shape, device=y.device, dtype=torch.bool)
    padded = triton.next_power_of_2(mixtures)
    block = max(16, 512 // padded)
    _search[(triton.cdiv(flat.numel(), block),)](
        flat, log_weights.contiguous(), means.contiguous(), log_scales.contiguous(),
        value, converged.view(torch.uint8), flat.numel(), tolerance,
        STEPS=steps, MIXTURES=mixtures, PADDED=padded, BLOCK=block,
    )  # fmt: skip
    return value.view(y.shape), converged.view(y.shape)


@mixture_root.register_fake
def _(y, log_weights, means, log_scales, steps, tolerance):
    return y.new_empty(y.shape), y.new_empty(y.shape, dtype=torch.bool)
