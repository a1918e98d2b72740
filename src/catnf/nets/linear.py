"""Linear layers and tables, in the form that is fast on the device at hand."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

ALIGNMENT = 8
"""GPU matrix products whose sizes are no multiples of this fall to slow kernels."""


class AlignedLinear(nn.Linear):
    """A linear layer that pads odd sizes with zeros on a GPU; its parameters keep their plain shapes."""

    def forward(self, input: Tensor) -> Tensor:
        more_in, more_out = -self.in_features % ALIGNMENT, -self.out_features % ALIGNMENT
        if not input.is_cuda or (more_in == 0 and more_out == 0):
            return super().forward(input)
        weight = F.pad(self.weight, (0, more_in, 0, more_out))
        bias = None if self.bias is None else F.pad(self.bias, (0, more_out))
        return F.linear(F.pad(input, (0, more_in)), weight, bias)[..., : self.out_features]


def spare_elements(values: Tensor) -> int:
    """How many elements, `values: [batch, elements, width]`, to add so that products over them are fast."""
    return -values.shape[1] % ALIGNMENT if values.is_cuda else 0


def lookup(table: Tensor, x: Tensor) -> Tensor:
    """Rows of `table: [categories, width]` for categories `x: [...]`, giving `[..., width]`.

    Looking rows up by index makes thousands of gradients add into the same few rows; for small tables
    a product with one-hot vectors is much faster.
    """
    if table.shape[0] > 256:
        return F.embedding(x, table)
    return F.one_hot(x, table.shape[0]).to(table.dtype) @ table


def select(values: Tensor, x: Tensor) -> Tensor:
    """`values[..., x]` for `values: [..., categories]` and `x: [...]`, giving `[...]`."""
    if values.shape[-1] > 256:
        return values.gather(-1, x.unsqueeze(-1)).squeeze(-1)
    chosen = F.one_hot(x, values.shape[-1]).bool()
    return torch.where(chosen, values, torch.zeros_like(values)).sum(-1)
