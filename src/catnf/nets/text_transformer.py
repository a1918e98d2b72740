"""Transformers over texts: one that looks back, and one that looks both ways."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.context import Context, SequenceContext
from catnf.nets.linear import AlignedLinear
from catnf.nets.network import Network
from catnf.nets.readout import Readout
from catnf.nets.sequence import PLACES, Causal, by_round, kept, normalized, places
from catnf.repetition import Index, put


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
        causal: whether an element sees only those before it and itself.
    """

    compile_unit = True

    def __init__(self, hidden: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
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
            mask: `[batch, elements]`, true where an element may be looked at, or `[1, elements, elements]`,
                true where the first may look at the second; `None` for all, or all before if it is causal.
            kept: `[2, batch, elements, hidden]`, what both additions are multiplied by, or `None`.
        """
        query, key, value = self._heads(h, rotation)
        bias = None
        if mask is not None:
            seen_by = mask.unsqueeze(1) if mask.dim() == 2 else mask
            bias = torch.where(seen_by, 0.0, -1e9).to(h.dtype).unsqueeze(1)
        causal = self.causal and mask is None
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=bias, is_causal=causal)
        return self._finish(h, seen, kept)

    def advance(
        self, h: Tensor, rotation: tuple[Tensor, Tensor], before: tuple[Tensor, Tensor], index: Index
    ) -> Tensor:
        """The round `index`, `[batch, lanes, hidden]`, given those before it.

        Args:
            h: `[batch, lanes, hidden]`.
            rotation: of its elements.
            before: keys and values `[batch, heads, elements, width]` of those before; these are added.
            index: of the round.
        """
        query, *new = self._heads(h, rotation)
        for old, value in zip(before, new, strict=True):
            put(old, 2, index, value)
        keys, values = before
        known = (index + 1) * h.shape[1]
        if isinstance(known, int):
            keys, values = keys[:, :, :known], values[:, :, :known]
            seen = F.scaled_dot_product_attention(query, keys, values)
        else:
            there = torch.arange(keys.shape[2], device=h.device) < known
            seen = F.scaled_dot_product_attention(query, keys, values, attn_mask=there.expand(1, 1, 1, -1))
        return self._finish(h, seen, None)

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


class CausalTransformer(Causal):
    """A transformer over the elements before each element.

    Args:
        inputs: numbers that describe an element.
        hidden: width.
        layers: of the transformer.
        heads: attention heads.
        input_dropout: share of elements that are hidden in training.
        dropout: share of numbers of input, output and every layer's additions that are dropped in training.
        lanes: elements of a round.
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
        lanes: int = 1,
        reads: int = 1,
    ) -> None:
        super().__init__(inputs, hidden, input_dropout, dropout, lanes, reads)
        self.heads = heads
        self.layers = nn.ModuleList(RotaryLayer(hidden, heads, causal=True) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden, elementwise_affine=False)

    def run(self, embedded: Tensor, ctx: SequenceContext) -> Tensor:
        h, every = embedded, torch.arange(ctx.elements, device=embedded.device)
        rotation = rotations(by_round(every.unsqueeze(0), self.lanes).squeeze(0), self.hidden // self.heads)
        mask = None
        if self.lanes > 1:
            rounds = every // self.lanes
            mask = (rounds.unsqueeze(1) >= rounds).unsqueeze(0)
        for layer in self.layers:
            factors = None
            if self.dropout > 0.0 and ctx.generator is not None:
                factors = kept((2, *h.shape), h, self.dropout, ctx.generator)
            h = layer(h, rotation, mask, factors)
        out: Tensor = self.norm(h)
        return out

    def empty_state(self, ctx: SequenceContext) -> list[tuple[Tensor, Tensor]]:
        shape = (ctx.batch, self.heads, ctx.elements, self.hidden // self.heads)
        zeros = self.mix.weight.new_zeros
        return [(zeros(shape), zeros(shape)) for _ in self.layers]

    def run_one(self, embedded: Tensor, state: list[tuple[Tensor, Tensor]], index: Index) -> Tensor:
        h, rounds = embedded, state[0][0].shape[2] // self.lanes
        places = torch.arange(self.lanes, device=h.device) * rounds + index
        rotation = rotations(places, self.hidden // self.heads)
        for layer, before in zip(self.layers, state, strict=True):
            assert isinstance(layer, RotaryLayer)
            h = layer.advance(h, rotation, before, index)
        out: Tensor = self.norm(h)
        return out


class ParallelTransformer(Network):
    """A transformer whose elements look both ways: the conditioner of couplings over whole texts.

    Args:
        inputs: channels of the kept latents.
        outputs: numbers to predict for an element.
        hidden: width.
        layers: of the transformer.
        heads: attention heads.
    """

    def __init__(self, inputs: int, outputs: int, hidden: int = 384, layers: int = 2, heads: int = 6) -> None:
        super().__init__()
        self.width = hidden // heads
        self.input = AlignedLinear(inputs, hidden, bias=False)
        self.place = AlignedLinear(PLACES, hidden)
        self.mix = nn.Linear(hidden, hidden, bias=False)
        self.layers = nn.ModuleList(RotaryLayer(hidden, heads, causal=False) for _ in range(layers))
        self.readout = Readout(hidden, outputs)

    def forward(self, seen: Tensor, ctx: Context) -> Tensor:
        """`seen: [batch, elements, inputs]` to `[batch, elements, outputs]`."""
        own, dtype = SequenceContext.need(ctx), self.mix.weight.dtype
        h = self.mix(F.gelu(self.input(seen.to(dtype)) + self.place(places(own, seen).to(dtype))))
        rotation = rotations(torch.arange(own.elements, device=h.device), self.width)
        for layer in self.layers:
            h = layer(h, rotation, own.mask, None)
        out: Tensor = self.readout(h)
        return out
