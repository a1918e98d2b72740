"""Networks over texts whose memory is a gated sum, so that all elements but that sum are computed at once."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.context import SequenceContext
from catnf.kernels.linear_recurrence import remember
from catnf.nets.sequence import Causal, kept
from catnf.repetition import Index

_WINDOW = 4
"""Elements that a layer's gates and offers are made of: its own and those just before it."""


class RememberingLayer(nn.Module):
    """A gated memory and a feed-forward network, each added to its normalized input.

    Args:
        hidden: width.
    """

    compile_unit = True

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.norm = nn.LayerNorm(hidden, elementwise_affine=False)
        self.enter = nn.Linear(hidden, 2 * hidden, bias=False)
        self.open = nn.Linear(hidden, hidden, bias=False)
        self.mix = nn.Linear(hidden, hidden, bias=False)
        self.expand = nn.Linear(hidden, 4 * hidden, bias=False)
        self.contract = nn.Linear(4 * hidden, hidden, bias=False)
        window = torch.zeros(_WINDOW, 2 * hidden)
        window[0] = 1.0  # at first the element alone counts
        self.window = nn.Parameter(window)
        # Numbers are remembered for 1 to about 64 elements at first.
        times = 2.0 ** torch.linspace(0.0, 6.0, hidden)
        self.bias = nn.Parameter(torch.cat([-times.log(), torch.zeros(hidden)]))

    def forward(self, h: Tensor, kept: Tensor | None) -> Tensor:
        """All elements at once.

        Args:
            h: `[batch, elements, hidden]`.
            kept: `[2, batch, elements, hidden]`, what both additions are multiplied by, or `None`.
        """
        seen = self.norm(h)
        entered = F.pad(self.enter(seen), (0, 0, _WINDOW - 1, 0))
        elements = h.shape[1]
        views = [entered[:, _WINDOW - 1 - back :][:, :elements] for back in range(_WINDOW)]
        openness, offered = self._gathered(views)
        return self._finish(h, seen, remember(openness, offered), kept)

    def advance(self, h: Tensor, state: tuple[Tensor, Tensor]) -> Tensor:
        """One element, `[batch, 1, hidden]`, given those before it.

        Args:
            h: `[batch, 1, hidden]`.
            state: what is remembered, `[batch, 1, hidden]` in float32, and what entered last, the newest
                first, `[batch, window - 1, 2 * hidden]`; both are changed.
        """
        remembered, recent = state
        seen = self.norm(h)
        entered = torch.cat([self.enter(seen), recent], dim=1)
        openness, offered = self._gathered([entered[:, back : back + 1] for back in range(_WINDOW)])
        recent.copy_(entered[:, :-1])
        gate = openness.to(remembered.dtype).sigmoid()
        remembered.lerp_(offered.to(remembered.dtype), gate)
        return self._finish(h, seen, remembered.to(h.dtype), None)

    def _gathered(self, views: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Gates and offers from what entered at an element, at the one before, and so on."""
        total = self.bias + views[0] * self.window[0]
        for back in range(1, _WINDOW):
            total = total + views[back] * self.window[back]
        openness, offered = total.chunk(2, dim=-1)
        return openness, offered

    def _finish(self, h: Tensor, seen: Tensor, remembered: Tensor, kept: Tensor | None) -> Tensor:
        first = self.mix(remembered * F.silu(self.open(seen)))
        h = h + (first if kept is None else first * kept[0])
        second = self.contract(F.gelu(self.expand(self.norm(h))))
        out: Tensor = h + (second if kept is None else second * kept[1])
        return out


class LinearRecurrence(Causal):
    """Layers with gated memories over the elements before each element.

    Args:
        inputs: numbers that describe an element.
        hidden: width.
        layers: how many.
        input_dropout: share of elements that are hidden in training.
        dropout: share of numbers of input, output and every layer's additions that are dropped in training.
        reads: elements before each element that it reads directly.
    """

    def __init__(
        self,
        inputs: int,
        hidden: int = 512,
        layers: int = 6,
        input_dropout: float = 0.0,
        dropout: float = 0.0,
        reads: int = 1,
    ) -> None:
        super().__init__(inputs, hidden, input_dropout, dropout, reads=reads)
        self.layers = nn.ModuleList(RememberingLayer(hidden) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden, elementwise_affine=False)

    def run(self, embedded: Tensor, ctx: SequenceContext) -> Tensor:
        h = embedded
        for layer in self.layers:
            factors = None
            if self.dropout > 0.0 and ctx.generator is not None:
                factors = kept((2, *h.shape), h, self.dropout, ctx.generator)
            h = layer(h, factors)
        out: Tensor = self.norm(h)
        return out

    def empty_state(self, ctx: SequenceContext) -> list[tuple[Tensor, Tensor]]:
        weight = self.mix.weight
        # Sums that are renewed by little at a time need float32 at least.
        precise = torch.promote_types(weight.dtype, torch.float32)
        remembered = (ctx.batch, 1, self.hidden)
        recent = (ctx.batch, _WINDOW - 1, 2 * self.hidden)
        return [(weight.new_zeros(remembered, dtype=precise), weight.new_zeros(recent)) for _ in self.layers]

    def run_one(self, embedded: Tensor, state: list[tuple[Tensor, Tensor]], index: Index) -> Tensor:
        h = embedded
        for layer, before in zip(self.layers, state, strict=True):
            assert isinstance(layer, RememberingLayer)
            h = layer.advance(h, before)
        out: Tensor = self.norm(h)
        return out
