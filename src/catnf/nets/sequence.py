"""Networks over texts: what comes in, and recurrent networks."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.context import Context, SequenceContext
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
    start = torch.arange(ctx.elements, device=like.device).expand_as(end)
    periods = 2.0 ** torch.arange(1, _OCTAVES + 1, device=like.device)
    angles = torch.stack([start, end], dim=-1).unsqueeze(-1) * (2.0 * math.pi / periods)
    # Of the shortest period only full and half turns occur, whose sines are zero: so all start elsewhere.
    angles = angles + 0.25 * math.pi
    return torch.cat([angles.sin(), angles.cos()], dim=-1).flatten(-2)


def by_round(values: Tensor, lanes: int) -> Tensor:
    """The elements of `values: [batch, elements, ...]` as they come in rounds: the first of every lane, then
    the second of every lane, and so on. A lane is one of `lanes` equal pieces of a text.
    """
    return values if lanes == 1 else _transposed(values, lanes, -1)


def by_place(values: Tensor, lanes: int) -> Tensor:
    """Undo `by_round`."""
    return values if lanes == 1 else _transposed(values, -1, lanes)


def _transposed(values: Tensor, rows: int, columns: int) -> Tensor:
    cut = values.reshape(values.shape[0], rows, columns, *values.shape[2:])
    return cut.transpose(1, 2).flatten(1, 2)


def drop(values: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    """Zero a random share of numbers and scale up the others; all stay without a generator."""
    if rate == 0.0 or generator is None:
        return values
    return values * kept(values.shape, values, rate, generator)


def kept(shape: Sequence[int], like: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """What numbers of this `shape` are multiplied by so that a random share of them becomes zero."""
    # In the dtype of the numbers from the start: products of different ones are slow on a GPU.
    return like.new_empty(shape).bernoulli_(1.0 - rate, generator=generator).div_(1.0 - rate)


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
        recent: the last elements that are read at once, `[batch, lanes, reads * inputs]`, changed in place.
    """

    places: Tensor
    state: list[tuple[Tensor, Tensor]]
    recent: Tensor


class Causal(Network):
    """Networks whose state of an element depends on the elements before it, and on its place in the text.

    With several lanes, elements come in rounds, see `by_round`, and their state depends on earlier rounds.

    Args:
        inputs: numbers that describe an element.
        hidden: width.
        input_dropout: share of elements that are hidden from those after them in training.
        dropout: share of numbers of input and output that are dropped in training.
        lanes: elements of a round.
        reads: elements before each element that it reads directly, besides what layers tell of them.
    """

    def __init__(
        self,
        inputs: int,
        hidden: int,
        input_dropout: float,
        dropout: float,
        lanes: int = 1,
        reads: int = 1,
    ) -> None:
        super().__init__()
        self.lanes, self.reads = lanes, reads
        check_share("input_dropout", input_dropout)
        check_share("dropout", dropout)
        self.inputs, self.hidden = inputs, hidden
        self.input_dropout, self.dropout = input_dropout, dropout
        self.input = AlignedLinear(reads * inputs, hidden, bias=False)
        self.place = AlignedLinear(PLACES, hidden)
        self.mix = nn.Linear(hidden, hidden, bias=False)

    def forward(self, values: Tensor, ctx: SequenceContext) -> Tensor:
        """`values: [batch, elements, inputs]` to states `[batch, elements, hidden]`, both in rounds."""
        seen = self._hide_some(values, ctx.generator)
        front = self.reads * self.lanes
        padded = F.pad(seen, (0, 0, front, 0))
        # First the element before, then the one before that, and so on.
        starts = range(front - self.lanes, -1, -self.lanes)
        recent = torch.cat([padded[:, start : start + ctx.elements] for start in starts], dim=-1)
        embedded = self._embed(recent, by_round(places(ctx, values), self.lanes))
        out = self.run(drop(embedded, self.dropout, ctx.generator), ctx)
        return drop(out, self.dropout, ctx.generator)

    def begin(self, ctx: SequenceContext, like: Tensor) -> Memory:
        """What is remembered before the first element of texts that `ctx` describes."""
        width = self.reads * self.inputs
        recent = self.mix.weight.new_zeros(ctx.batch, self.lanes, width)
        return Memory(by_round(places(ctx, like), self.lanes), self.empty_state(ctx), recent)

    def advance(self, previous: Tensor, memory: Memory, index: Index) -> Tensor:
        """The states `[batch, lanes, hidden]` of the round `index`, which the memory then knows as well.

        Args:
            previous: the elements of the round before, `[batch, lanes, inputs]`.
            memory: of all rounds before.
            index: from 0, one after another.
        """
        where = at(memory.places, 1, index, self.lanes)
        older = memory.recent[..., : -self.inputs]
        memory.recent.copy_(torch.cat([previous.to(older.dtype), older], dim=-1))
        return self.run_one(self._embed(memory.recent, where), memory.state, index)

    def run(self, embedded: Tensor, ctx: SequenceContext) -> Tensor:
        """All elements at once, `[batch, elements, hidden]` to the same."""
        raise NotImplementedError

    def empty_state(self, ctx: SequenceContext) -> list[tuple[Tensor, Tensor]]:
        """What the layers remember before the first element, in the dtype of their weights."""
        raise NotImplementedError

    def run_one(self, embedded: Tensor, state: list[tuple[Tensor, Tensor]], index: Index) -> Tensor:
        """The round `index`, `[batch, lanes, hidden]` to the same, given what the layers remember."""
        raise NotImplementedError

    def _hide_some(self, values: Tensor, generator: torch.Generator | None) -> Tensor:
        """Elements in the dtype of the weights, some of them hidden in training."""
        values = values.to(self.mix.weight.dtype)
        if self.input_dropout == 0.0 or generator is None:
            return values
        shape = (*values.shape[:-1], 1)
        return values * (torch.rand(shape, device=values.device, generator=generator) >= self.input_dropout)

    def _embed(self, recent: Tensor, where: Tensor) -> Tensor:
        out: Tensor = self.mix(F.gelu(self.input(recent) + self.place(where.to(recent.dtype))))
        return out


def normalized(h: Tensor) -> Tensor:
    """Numbers `[..., width]` with a mean square of 1."""
    # Left out, epsilon would depend on the dtype, and a network in bfloat16 be another one than in float32.
    return F.rms_norm(h, h.shape[-1:], eps=1e-5)


class CausalLSTM(Causal):
    """A recurrent network over the elements before each element.

    What goes into the first layer and what comes out of the last one is normalized: an LSTM's states start
    small, and optimizers whose steps are of fixed length take long to make up for it.

    Args:
        inputs: numbers that describe an element.
        hidden: width.
        layers: of the LSTM.
        input_dropout: share of elements that are hidden in training.
        dropout: share of numbers dropped before, between and after the layers in training; between them the
            same ones for a whole batch, since a GPU runs layers side by side if their weights say it all.
        weight_dropout: share of weights from one element to the next that are dropped in training, the same
            ones for a whole batch.
    """

    def __init__(
        self,
        inputs: int,
        hidden: int = 1024,
        layers: int = 1,
        input_dropout: float = 0.0,
        dropout: float = 0.0,
        weight_dropout: float = 0.0,
    ) -> None:
        super().__init__(inputs, hidden, input_dropout, dropout)
        check_share("weight_dropout", weight_dropout)
        self.weight_dropout = weight_dropout
        self.layers = nn.ModuleList([lstm(hidden, hidden, layers)])  # the name that stored weights have

    @property
    def lstm(self) -> nn.LSTM:
        """All layers."""
        return cast("nn.LSTM", self.layers[0])

    def run(self, embedded: Tensor, ctx: SequenceContext) -> Tensor:
        h = normalized(embedded)
        layers = self._thinned(ctx.generator)
        weights = [weight for layer in layers for weight in layer]
        start = h.new_zeros(len(layers), h.shape[0], self.hidden)
        training = self.training or ctx.generator is not None
        with _quiet():
            # Biases, layers, no dropout of torch's, training, one direction, the batch first.
            out, *_ = torch.lstm(h, (start, start), weights, True, len(layers), 0.0, training, False, True)
        return normalized(out)

    def _thinned(self, generator: torch.Generator | None) -> list[list[Tensor]]:
        """The weights of every layer, some of them dropped in training."""
        layers: list[list[Tensor]] = [[*layer] for layer in self.lstm.all_weights]
        if generator is None:
            return layers
        for number, layer in enumerate(layers):
            inwards, onwards, *_ = layer
            if number and self.dropout > 0.0:
                layer[0] = inwards * kept((1, self.hidden), inwards, self.dropout, generator)
            layer[1] = drop(onwards, self.weight_dropout, generator)
        return layers

    def empty_state(self, ctx: SequenceContext) -> list[tuple[Tensor, Tensor]]:
        zeros = self.mix.weight.new_zeros(ctx.batch, self.hidden)
        return [(zeros.clone(), zeros.clone()) for _ in self.lstm.all_weights]

    def run_one(self, embedded: Tensor, state: list[tuple[Tensor, Tensor]], index: Index) -> Tensor:
        # Cell by cell: whole-sequence kernels would rearrange all weights for a single element.
        h = normalized(embedded.squeeze(1))
        for weights, remembered in zip(self.lstm.all_weights, state, strict=True):
            new = torch.lstm_cell(h, remembered, *weights)
            for old, value in zip(remembered, new, strict=True):
                old.copy_(value)
            h = new[0]
        return normalized(h).unsqueeze(1)


class BidirectionalLSTM(Network):
    """A recurrent network that reads a text in both directions.

    Args:
        inputs: numbers that describe an element.
        outputs: numbers to predict for an element.
        hidden: width of both directions together.
    """

    def __init__(self, inputs: int, outputs: int, hidden: int = 512) -> None:
        super().__init__()
        self.input = AlignedLinear(inputs, hidden)
        self.both = lstm(hidden, hidden // 2, 1, bidirectional=True)
        self.output = AlignedLinear(hidden, outputs)
        nn.init.normal_(self.output.weight, std=1e-2)
        nn.init.zeros_(self.output.bias)

    def forward(self, values: Tensor, ctx: Context) -> Tensor:
        """`values: [batch, elements, inputs]` to `[batch, elements, outputs]`."""
        h = F.gelu(self.input(values.to(self.output.weight.dtype)))
        with _quiet():
            h, _ = self.both(ctx.hide(h))
        out: Tensor = self.output(h)
        return out


def lstm(inputs: int, hidden: int, layers: int, bidirectional: bool = False) -> nn.LSTM:
    """An LSTM that remembers at first: the biases of its forget gates start at 1."""
    module = nn.LSTM(inputs, hidden, layers, batch_first=True, bidirectional=bidirectional)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name.startswith("bias_ih"):
                parameter[hidden : 2 * hidden] = 1.0
    return module


@contextmanager
def _quiet() -> Iterator[None]:
    """Engines keep weights in one buffer of their own; that cuDNN copies them into its own costs little."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous")
        yield
