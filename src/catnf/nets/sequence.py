"""What networks over texts share: what comes in, and what is remembered between elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.context import SequenceContext
from catnf.errors import InputError
from catnf.nets.linear import AlignedLinear
from catnf.nets.network import Network
from catnf.repetition import Index, at

_OCTAVES = 9
PLACES = 4 * _OCTAVES
"""Numbers that tell where in a text an element is, counted from its start and from its end."""


def places(ctx: SequenceContext, like: Tensor) -> Tensor:
    """Sines and cosines of every element's place, `[batch, elements, PLACES]` or with 1 in place of `batch`.

    Their periods are 2, 4, 8, ... elements: the first ones count, the last ones tell how far away an end is.
    """
    end = ctx.to_end(like)
    return between(torch.arange(ctx.elements, device=like.device).expand_as(end), end)


def between(start: Tensor, end: Tensor) -> Tensor:
    """What `places` tells of an element that is so far from a start and from an end, `[...]` each."""
    periods = 2.0 ** torch.arange(1, _OCTAVES + 1, device=start.device)
    angles = torch.stack([start, end], dim=-1).unsqueeze(-1) * (2.0 * math.pi / periods)
    # Of the shortest period only full and half turns occur, whose sines are zero: so all start elsewhere.
    angles = angles + 0.25 * math.pi
    return torch.cat([angles.sin(), angles.cos()], dim=-1).flatten(-2)


def drop(values: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    """Zero a random share of numbers and scale up the others; all stay without a generator."""
    if rate == 0.0 or generator is None:
        return values
    return values * kept(values.shape, values, rate, generator)


def kept(shape: Sequence[int], like: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """What numbers of this `shape` are multiplied by so that a random share of them becomes zero."""
    if like.device.type == "cpu":
        return _kept_on_cpu(shape, like, rate, generator)
    # In the dtype of the numbers from the start: products of different ones are slow on a GPU.
    return like.new_empty(shape).bernoulli_(1.0 - rate, generator=generator).div_(1.0 - rate)


def _kept_on_cpu(shape: Sequence[int], like: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """`kept` of four numbers for each that is drawn, since a CPU draws one after another."""
    count = math.prod(shape)
    drawn = torch.randint(-(1 << 63), (1 << 63) - 1, (-(-count // 4),), generator=generator)
    # Of 2^16 equally likely values so many stay; the share is off by less than 1e-5.
    staying = round((1.0 - rate) * (1 << 16))
    stays = drawn.view(torch.int16)[:count].view(shape) < staying - (1 << 15)
    return stays.to(like.dtype).mul_((1 << 16) / staying)


def check_share(name: str, rate: float) -> None:
    """`InputError` where something cannot be dropped at this rate."""
    if not 0.0 <= rate < 1.0:
        raise InputError(f"{name} is {rate}; give a share from 0 to below 1.")


@dataclass(frozen=True)
class Memory:
    """What a network over time remembers between elements.

    Attributes:
        places: of all elements, `[batch, elements, PLACES]` or with 1 in place of `batch`.
        state: of the layers, changed in place.
        recent: the last elements that are read at once, `[batch, 1, reads * inputs]`, changed in place.
    """

    places: Tensor
    state: list[tuple[Tensor, Tensor]]
    recent: Tensor


class TextNetwork(Network):
    """What networks over texts do with elements before their layers see them.

    Args:
        read: numbers that an element reads of others.
        hidden: width.
        input_dropout: share of elements that are hidden from others in training.
        dropout: share of numbers of input and output that are dropped in training.
        where: numbers that tell where an element is.
    """

    def __init__(
        self, read: int, hidden: int, input_dropout: float, dropout: float, where: int = PLACES
    ) -> None:
        super().__init__()
        check_share("input_dropout", input_dropout)
        check_share("dropout", dropout)
        self.hidden, self.input_dropout, self.dropout = hidden, input_dropout, dropout
        self.input = AlignedLinear(read, hidden, bias=False)
        self.place = AlignedLinear(where, hidden)
        self.mix = nn.Linear(hidden, hidden, bias=False)

    def hide_some(self, values: Tensor, generator: torch.Generator | None) -> Tensor:
        """Elements in the dtype of the weights, some of them hidden in training."""
        values = values.to(self.mix.weight.dtype)
        if self.input_dropout == 0.0 or generator is None:
            return values
        shape = (*values.shape[:-1], 1)
        return values * (torch.rand(shape, device=values.device, generator=generator) >= self.input_dropout)

    def embed(self, read: Tensor, where: Tensor) -> Tensor:
        """What enters the layers, `[batch, elements, hidden]`, of what each element reads and its place."""
        out: Tensor = self.mix(F.gelu(self.input(read) + self.place(where.to(read.dtype))))
        return out


class Causal(TextNetwork):
    """Networks whose state of an element depends on the elements before it, and on its place in the text.

    Args:
        inputs: numbers that describe an element.
        hidden: width.
        input_dropout: share of elements that are hidden from those after them in training.
        dropout: share of numbers of input and output that are dropped in training.
        reads: elements before each element that it reads directly, besides what layers tell of them.
    """

    def __init__(
        self, inputs: int, hidden: int, input_dropout: float, dropout: float, reads: int = 1
    ) -> None:
        super().__init__(reads * inputs, hidden, input_dropout, dropout)
        self.inputs, self.reads = inputs, reads

    def forward(self, values: Tensor, ctx: SequenceContext) -> Tensor:
        """`values: [batch, elements, inputs]` to states `[batch, elements, hidden]`."""
        return self.states(values, places(ctx, values), ctx)

    def states(self, values: Tensor, where: Tensor, ctx: SequenceContext) -> Tensor:
        """`forward`, given `where: [batch or 1, elements, PLACES]` the elements are."""
        padded = F.pad(self.hide_some(values, ctx.generator), (0, 0, self.reads, 0))
        # First the element before, then the one before that, and so on.
        starts = range(self.reads - 1, -1, -1)
        recent = torch.cat([padded[:, start : start + ctx.elements] for start in starts], dim=-1)
        embedded = self.embed(recent, where)
        out = self.run(drop(embedded, self.dropout, ctx.generator), ctx)
        return drop(out, self.dropout, ctx.generator)

    def begin(self, ctx: SequenceContext, like: Tensor) -> Memory:
        """What is remembered before the first element of texts that `ctx` describes."""
        recent = self.mix.weight.new_zeros(ctx.batch, 1, self.reads * self.inputs)
        return Memory(places(ctx, like), self.empty_state(ctx), recent)

    def advance(self, previous: Tensor, memory: Memory, index: Index) -> Tensor:
        """The state `[batch, 1, hidden]` of the element `index`, which the memory then knows as well.

        Args:
            previous: the element before, `[batch, 1, inputs]`.
            memory: of all elements before.
            index: from 0, one after another.
        """
        where = at(memory.places, 1, index)
        older = memory.recent[..., : -self.inputs]
        memory.recent.copy_(torch.cat([previous.to(older.dtype), older], dim=-1))
        return self.run_one(self.embed(memory.recent, where), memory.state, index)

    def run(self, embedded: Tensor, ctx: SequenceContext) -> Tensor:
        """All elements at once, `[batch, elements, hidden]` to the same."""
        raise NotImplementedError

    def empty_state(self, ctx: SequenceContext) -> list[tuple[Tensor, Tensor]]:
        """What the layers remember before the first element, in the dtype of their weights."""
        raise NotImplementedError

    def run_one(self, embedded: Tensor, state: list[tuple[Tensor, Tensor]], index: Index) -> Tensor:
        """The element `index`, `[batch, 1, hidden]` to the same, given what the layers remember."""
        raise NotImplementedError


def normalized(h: Tensor) -> Tensor:
    """Numbers `[..., width]` with a mean square of 1."""
    # Left out, epsilon would depend on the dtype, and a network in bfloat16 be another one than in float32.
    return F.rms_norm(h, h.shape[-1:], eps=1e-5)
