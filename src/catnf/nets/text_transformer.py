"""A transformer over texts that looks back, and its layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.context import SequenceContext
from catnf.nets.sequence import Causal, kept, normalized
from catnf.repetition import Index, put

KeysValues = tuple[Tensor, Tensor]
"""What attention remembers of elements, `[batch, heads, elements, width]` each."""


def rotations(elements: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the angles of `elements: [elements]`, `[elements, width / 2]` each."""
    rates = 1e4 ** (-torch.arange(0, width, 2, device=elements.device) / width)
    angles = elements.unsqueeze(1) * rates
    return angles.cos(), angles.sin()


def turn(values: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """`values: [..., elements, width]` turned, so that products of two tell how far apart they are."""
    cos, sin = rotation
    one, two = values.float().chunk(2, dim=-1)
    return torch.cat([one * cos - two * sin, one * sin + two * cos], dim=-1).to(values.dtype)


class RotaryLayer(nn.Module):
    """Self-attention that knows distances, and a feed-forward network, each added to its normalized input.

    Args:
        hidden: width.
        heads: attention heads.
    """

    compile_unit = True

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(hidden, elementwise_affine=False)
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.mix = nn.Linear(hidden, hidden, bias=False)
        self.expand = nn.Linear(hidden, 4 * hidden, bias=False)
        self.contract = nn.Linear(4 * hidden, hidden, bias=False)

    def forward(
        self, h: Tensor, rotation: tuple[Tensor, Tensor], mask: Tensor | None, kept: Tensor | None
    ) -> Tensor:
        """All elements at once.

        Args:
            h: `[batch, elements, hidden]`.
            rotation: of the elements.
            mask: `[batch or 1, elements, elements]`, true where the first may look at the second; `None` for
                those before it and itself.
            kept: `[2, batch, elements, hidden]`, what both additions are multiplied by, or `None`.
        """
        query, key, value = self._heads(h, rotation)
        bias = None if mask is None else torch.where(mask, 0.0, -1e9).to(h.dtype).unsqueeze(1)
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=bias, is_causal=mask is None)
        return self._finish(h, seen, kept)

    def advance(self, h: Tensor, rotation: tuple[Tensor, Tensor], before: KeysValues, index: Index) -> Tensor:
        """The element `index`, `[batch, 1, hidden]`, given those before it.

        Args:
            h: `[batch, 1, hidden]`.
            rotation: of the element.
            before: keys and values `[batch, heads, elements, width]` of those before; these are added.
            index: of the element.
        """
        query, *new = self._heads(h, rotation)
        for old, value in zip(before, new, strict=True):
            put(old, 2, index, value)
        keys, values = before
        if isinstance(index, int):
            keys, values = keys[:, :, : index + 1], values[:, :, : index + 1]
            seen = F.scaled_dot_product_attention(query, keys, values)
        else:
            there = torch.arange(keys.shape[2], device=h.device) <= index
            seen = F.scaled_dot_product_attention(query, keys, values, attn_mask=there.expand(1, 1, 1, -1))
        return self._finish(h, seen, None)

    def extend(
        self, h: Tensor, rotation: tuple[Tensor, Tensor], before: KeysValues, mask: Tensor | None
    ) -> tuple[Tensor, KeysValues]:
        """More elements, each of which sees all others and all before, and what those after them need.

        Args:
            h: `[batch, more, hidden]`.
            rotation: of these elements.
            before: keys and values of those before, `[batch, heads, before, width]` each.
            mask: `[batch, before + more]`, true where an element may be looked at; `None` for all.
        """
        query, *new = self._heads(h, rotation)
        keys, values = (torch.cat(pair, dim=2) for pair in zip(before, new, strict=True))
        bias = None if mask is None else torch.where(mask, 0.0, -1e9).to(h.dtype)[:, None, None]
        seen = F.scaled_dot_product_attention(query, keys, values, attn_mask=bias)
        return self._finish(h, seen, None), (keys, values)

    def _heads(self, h: Tensor, rotation: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        parts = self.qkv(self.norm(h)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        # Normalized, so that large steps of the weights do not saturate the attention.
        query, key = turn(normalized(parts[:2]), rotation)
        return query, key, parts[2]

    def _finish(self, h: Tensor, seen: Tensor, kept: Tensor | None) -> Tensor:
        first = self.mix(seen.transpose(1, 2).flatten(2))
        h = h + (first if kept is None else first * kept[0])
        second = self.contract(F.gelu(self.expand(self.norm(h))))
        out: Tensor = h + (second if kept is None else second * kept[1])
        return out


def through(
    layers: nn.ModuleList, heads: int, h: Tensor, mask: Tensor | None, dropout: float, ctx: SequenceContext
) -> Tensor:
    """`h: [batch, elements, hidden]` after all of these layers.

    Args:
        layers: each a `RotaryLayer`.
        heads: of each.
        h: of the elements, in their order.
        mask: as a layer takes it.
        dropout: share of numbers of every layer's additions that are dropped in training.
        ctx: of the texts.
    """
    rotation = rotations(torch.arange(h.shape[1], device=h.device), h.shape[-1] // heads)
    for layer in layers:
        factors = None
        if dropout > 0.0 and ctx.generator is not None:
            factors = kept((2, *h.shape), h, dropout, ctx.generator)
        h = layer(h, rotation, mask, factors)
    return h


class CausalTransformer(Causal):
    """A transformer over the elements before each element.

    Args:
        inputs: numbers that describe an element.
        hidden: width.
        layers: of the transformer.
        heads: attention heads.
        input_dropout: share of elements that are hidden in training.
        dropout: share of numbers of input, output and every layer's additions that are dropped in training.
        reads: elements before each element that it reads directly.
    """

    def __init__(
        self,
        inputs: int,
        hidden: int = 512,
        layers: int = 8,
        heads: int = 8,
        input_dropout: float = 0.0,
        dropout: float = 0.0,
        reads: int = 1,
    ) -> None:
        super().__init__(inputs, hidden, input_dropout, dropout, reads)
        self.heads = heads
        self.layers = nn.ModuleList(RotaryLayer(hidden, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden, elementwise_affine=False)

    def run(self, embedded: Tensor, ctx: SequenceContext) -> Tensor:
        out: Tensor = self.norm(through(self.layers, self.heads, embedded, None, self.dropout, ctx))
        return out

    def empty_state(self, ctx: SequenceContext) -> list[KeysValues]:
        shape = (ctx.batch, self.heads, ctx.elements, self.hidden // self.heads)
        zeros = self.mix.weight.new_zeros
        return [(zeros(shape), zeros(shape)) for _ in self.layers]

    def run_one(self, embedded: Tensor, state: list[KeysValues], index: Index) -> Tensor:
        h, place = embedded, torch.zeros(1, device=embedded.device) + index
        rotation = rotations(place, self.hidden // self.heads)
        for layer, before in zip(self.layers, state, strict=True):
            assert isinstance(layer, RotaryLayer)
            h = layer.advance(h, rotation, before, index)
        out: Tensor = self.norm(h)
        return out
