"""Recurrent networks over texts."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.context import Context, SequenceContext
from catnf.nets.linear import AlignedLinear
from catnf.nets.network import Network
from catnf.nets.sequence import Causal, check_share, drop, kept, normalized
from catnf.repetition import Index


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
        feed_forward: where above 0, the layers add to what enters them, and a feed-forward layer so many
            times as wide as `hidden` adds to that. It runs over all elements at once, unlike the layers.
    """

    def __init__(
        self,
        inputs: int,
        hidden: int = 1024,
        layers: int = 1,
        input_dropout: float = 0.0,
        dropout: float = 0.0,
        weight_dropout: float = 0.0,
        feed_forward: int = 0,
    ) -> None:
        super().__init__(inputs, hidden, input_dropout, dropout)
        check_share("weight_dropout", weight_dropout)
        self.weight_dropout = weight_dropout
        self.layers = nn.ModuleList([lstm(hidden, hidden, layers)])  # the name that stored weights have
        self.feed_forward = feed_forward
        if feed_forward:
            self.widen = nn.Linear(hidden, feed_forward * hidden, bias=False)
            self.narrow = nn.Linear(feed_forward * hidden, hidden, bias=False)
            nn.init.zeros_(self.narrow.weight)

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
        return self._refined(out, h, ctx.generator)

    def _refined(self, out: Tensor, entered: Tensor, generator: torch.Generator | None) -> Tensor:
        """States from what came `out` of the last layer and what `entered` the first, all `[..., hidden]`."""
        out = normalized(out)
        if not self.feed_forward:
            return out
        out = normalized(out + entered)
        inner = drop(F.gelu(self.widen(out)), self.dropout, generator)
        return normalized(out + self.narrow(inner))

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
        h = entered = normalized(embedded.squeeze(1))
        for weights, remembered in zip(self.lstm.all_weights, state, strict=True):
            new = torch.lstm_cell(h, remembered, *weights)
            for old, value in zip(remembered, new, strict=True):
                old.copy_(value)
            h = new[0]
        return self._refined(h, entered, None).unsqueeze(1)


class BidirectionalLSTM(Network):
    """A recurrent network that reads a text in both directions, backwards from its own last element.

    Args:
        inputs: numbers that describe an element.
        outputs: numbers to predict for an element.
        hidden: width of both directions together.
    """

    def __init__(self, inputs: int, outputs: int, hidden: int = 512) -> None:
        super().__init__()
        self.input = AlignedLinear(inputs, hidden)
        self.onwards = lstm(hidden, hidden // 2, 1)
        self.backwards = lstm(hidden, hidden // 2, 1)
        self.output = AlignedLinear(hidden, outputs)
        nn.init.normal_(self.output.weight, std=1e-2)
        nn.init.zeros_(self.output.bias)

    def forward(self, values: Tensor, ctx: Context) -> Tensor:
        """`values: [batch, elements, inputs]` to `[batch, elements, outputs]`."""
        h = F.gelu(self.input(values.to(self.output.weight.dtype)))
        with _quiet():
            before, _ = self.onwards(h)
            after, _ = self.backwards(_reversed(h, ctx))
        out: Tensor = self.output(torch.cat([before, _reversed(after, ctx)], dim=-1))
        return out


def _reversed(h: Tensor, ctx: Context) -> Tensor:
    """The elements of every text from its last to its first, with the padding still behind them."""
    if ctx.mask is None:
        return h.flip(1)
    place = torch.arange(h.shape[1], device=h.device)
    last = ctx.mask.sum(1, keepdim=True) - 1
    mirrored = torch.where(place <= last, last - place, place)
    return torch.take_along_dim(h, mirrored.unsqueeze(-1), dim=1)


def lstm(inputs: int, hidden: int, layers: int) -> nn.LSTM:
    """An LSTM that remembers at first: the biases of its forget gates start at 1."""
    module = nn.LSTM(inputs, hidden, layers, batch_first=True)
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
