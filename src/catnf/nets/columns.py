"""A conditioner for tables: columns look at each other and know which ones they are."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.context import Context
from catnf.nets.linear import AlignedLinear
from catnf.nets.network import Network
from catnf.nets.transformer import TransformerLayer


class ColumnTransformer(Network):
    """A transformer over the columns of a table, each with an embedding and an output bias of its own.

    Columns have no order: two tables whose columns are swapped, embeddings with them, are the same to it.
    The biases can describe every column by itself, so that a network whose weights are small is one of
    independent columns.

    Args:
        inputs: channels of the kept latents, 0 for none.
        outputs: numbers to predict for a column.
        columns: of the table.
        features: width of `ctx.features`, 0 for none.
        hidden: width.
        layers: transformer layers.
        heads: attention heads.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        columns: int,
        features: int = 0,
        hidden: int = 64,
        layers: int = 1,
        heads: int = 4,
    ) -> None:
        super().__init__()
        self.input = AlignedLinear(inputs + features, hidden, bias=False)
        self.columns = nn.Parameter(0.5 * torch.randn(columns, hidden))
        self.mix = nn.Linear(hidden, hidden, bias=False)
        self.layers = nn.ModuleList(TransformerLayer(hidden, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden, elementwise_affine=False)
        self.gather = nn.Linear(hidden, hidden, bias=False)
        self.output = AlignedLinear(hidden, outputs, bias=False)
        self.biases = nn.Parameter(torch.zeros(columns, outputs))
        self.takes_features = features > 0
        # A small start keeps every coupling near the identity.
        nn.init.normal_(self.output.weight, std=1e-2)

    def forward(self, kept: Tensor, ctx: Context) -> Tensor:
        """`kept: [batch, columns, inputs]` to `[batch, columns, outputs]`."""
        dtype = self.mix.weight.dtype
        h = kept.to(dtype)
        if self.takes_features and ctx.features is not None:
            features = ctx.features.to(dtype).expand(h.shape[0], -1, -1)
            h = torch.cat([h, features], dim=-1)
        h = self.mix(F.gelu(self.input(h) + self.columns))
        for layer in self.layers:
            h = layer(h, ctx.mask)
        out: Tensor = self.output(F.gelu(self.gather(self.norm(h)))) + self.biases
        return out
