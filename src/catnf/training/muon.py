"""Muon: momentum whose matrices are made orthogonal, many matrices at once.

Hidden weight matrices move by the orthogonal factor of their momentum, so that no direction dominates;
that needs fewer steps than moving every number by itself. `torch.optim.Muon` walks the matrices one by
one; here all matrices of one shape are stacked and orthogonalized by a few batched products.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the quintic that pushes singular values towards 1: steep at 0, so that five steps suffice."""


@dataclass(frozen=True)
class Stack:
    """Matrices of one shape that follow each other in a flat buffer.

    Attributes:
        start: index of the first matrix's first number.
        count: how many matrices.
        rows: of each.
        columns: of each.
        stride: numbers from one matrix to the next, padding included.
    """

    start: int
    count: int
    rows: int
    columns: int
    stride: int

    @property
    def end(self) -> int:
        """Index behind the last matrix, padding included."""
        return self.start + self.count * self.stride

    def view(self, flat: Tensor) -> Tensor:
        """The matrices in `flat`, `[count, rows, columns]`."""
        padded = flat[self.start : self.end].view(self.count, self.stride)
        return torch.unflatten(padded[:, : self.rows * self.columns], 1, (self.rows, self.columns))


class Muon:
    """Updates stacks of matrices in place.

    Args:
        values: flat parameters.
        gradient: flat gradient of the same layout.
        stacks: where the matrices are; they fill the front of the buffer without gaps.
        rate: 0-d tensor with the learning rate, read in every step.
        momentum: decay of the gradient's running mean.
        dtype: of the products that make matrices orthogonal; a GPU computes them in bfloat16 anyway.
    """

    def __init__(
        self,
        values: Tensor,
        gradient: Tensor,
        stacks: list[Stack],
        rate: Tensor,
        momentum: float = 0.95,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.stacks, self.rate, self.decay = stacks, rate, momentum
        self.dtype = torch.bfloat16 if values.is_cuda else dtype
        self.end = max((stack.end for stack in stacks), default=0)
        self.values, self.gradient = values[: self.end], gradient[: self.end]
        self.momentum = torch.zeros_like(self.values)

    @torch.no_grad()
    def step(self) -> None:
        """Make one update."""
        self.momentum.lerp_(self.gradient, 1.0 - self.decay)
        ahead = self.gradient.lerp(self.momentum, self.decay)  # Nesterov's look ahead
        for stack in self.stacks:
            direction = orthogonalize(stack.view(ahead), self.dtype)
            # Tall matrices are scaled so that their output moves as much as that of square ones.
            scale = max(1.0, stack.rows / stack.columns) ** 0.5
            stack.view(self.values).sub_(direction * (scale * self.rate))


def orthogonalize(matrices: Tensor, dtype: torch.dtype = torch.float32, steps: int = 5) -> Tensor:
    """Nearly the orthogonal factors of `matrices: [count, rows, columns]`, by Newton-Schulz iterations in
    `dtype`, for which bfloat16 is enough.
    """
    a, b, c = _COEFFICIENTS
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    x = x.to(dtype)
    for _ in range(steps):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).to(matrices.dtype)
