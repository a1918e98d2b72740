"""Invertible linear map over channels (a 1x1 convolution)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from catnf.context import Context
from catnf.flows.transform import Transform


class InvertibleLinear(Transform):
    r"""`z @ W` with `W = P L (U + diag(s))`, so that `log|det| = elements * sum(log|s|)` costs nothing.

    `P` is a fixed permutation, `L` unit lower triangular, `U` strictly upper triangular. `W` starts as
    a random rotation. With two channels a random rotation is often near the identity, which would leave
    the same channel transformed again and again; its angle is then drawn from 45-135 or 225-315 degrees.

    Args:
        channels: latent channels.
        generator: source of the random start.
    """

    compile_unit = True
    order: Tensor
    sign: Tensor

    def __init__(self, channels: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        permutation, lower, upper = torch.linalg.lu(_rotation(channels, generator))
        diagonal = upper.diagonal()
        self.register_buffer("order", permutation.argmax(1))  # row i of W is row order[i] of L U
        self.register_buffer("sign", diagonal.sign())
        self.lower = nn.Parameter(lower.tril(-1))
        self.upper = nn.Parameter(upper.triu(1))
        self.log_diagonal = nn.Parameter(diagonal.abs().log())

    def weight(self) -> Tensor:
        """The matrix `W`, `[channels, channels]`."""
        lower, upper = self._factors()
        return multiply(lower, upper)[self.order]

    def forward(self, z: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        return multiply(z, self.weight()), ctx.counts(z) * self.log_diagonal.sum()

    def inverse(self, z: Tensor, ctx: Context) -> Tensor:
        lower, upper = self._factors()
        flat = z.reshape(-1, z.shape[-1])
        half: Tensor = torch.linalg.solve_triangular(upper, flat, upper=True, left=False)
        back: Tensor = torch.linalg.solve_triangular(lower, half, upper=False, left=False, unitriangular=True)
        return back[:, self.order].view_as(z)

    def _factors(self) -> tuple[Tensor, Tensor]:
        identity = torch.eye(self.lower.shape[0], device=self.lower.device, dtype=self.lower.dtype)
        diagonal = torch.diag_embed(self.sign * self.log_diagonal.exp())
        return self.lower.tril(-1) + identity, self.upper.triu(1) + diagonal


def multiply(values: Tensor, matrix: Tensor) -> Tensor:
    """`values: [..., channels] @ matrix: [channels, channels]`.

    A matrix product with so few columns leaves a GPU idle; as sums of products it fuses with its neighbours.
    """
    if values.is_cuda and matrix.shape[0] <= 8:
        return (values.unsqueeze(-1) * matrix).sum(-2)
    return values @ matrix


def _rotation(channels: int, generator: torch.Generator | None) -> Tensor:
    if channels == 2:
        draw = torch.rand(2, generator=generator)
        angle = float(math.pi / 4 + draw[0] * math.pi / 2 + (draw[1] < 0.5) * math.pi)
        cos, sin = math.cos(angle), math.sin(angle)
        return torch.tensor([[cos, -sin], [sin, cos]])
    q, r = torch.linalg.qr(torch.randn(channels, channels, generator=generator))
    rotation: Tensor = q * r.diagonal().sign()
    return rotation
