"""A transformer over texts that are written in a few rounds, many runs of symbols at once in each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.context import SequenceContext
from catnf.nets.linear import AlignedLinear
from catnf.nets.network import Network
from catnf.nets.sequence import PLACES, TextNetwork, drop, places
from catnf.nets.text_transformer import KeysValues, RotaryLayer, rotations, through


@dataclass
class RoundsMemory:
    """What is remembered between rounds.

    Attributes:
        where: of all runs, `[batch or 1, runs, marks]`.
        values: elements that are known, zeros in front, behind and elsewhere, changed in place:
            `[batch, reads + runs * run + reads, inputs]`.
        state: keys and values of every layer.
        seen: `[batch, known runs]`, false at padding; `None` where nothing is padded.
    """

    where: Tensor
    values: Tensor
    state: list[KeysValues]
    seen: Tensor | None


class RunHeads(Network):
    """States of the elements of a run, each given the run's state and the elements before it in the run.

    Args:
        inputs: numbers that describe an element.
        run: elements of a run.
        hidden: width of the runs' states.
        width: of the elements' states.
        layers: small networks between both.
    """

    compile_unit = True
    before: Tensor

    def __init__(self, inputs: int, run: int, hidden: int, width: int, layers: int = 2) -> None:
        super().__init__()
        self.run, self.width = run, width
        self.state = nn.Linear(hidden, run * width)
        # Optimizers treat it as what reads inputs, and not as a hidden matrix, of which it has only a part.
        self.own = AlignedLinear(run * inputs, run * width, bias=False)
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.expand = nn.ModuleList(nn.Linear(width, 2 * width, bias=False) for _ in range(layers))
        self.contract = nn.ModuleList(nn.Linear(2 * width, width, bias=False) for _ in range(layers))
        every = torch.arange(run)
        before = every.repeat_interleave(width).unsqueeze(1) > every.repeat_interleave(inputs)
        self.register_buffer("before", before, persistent=False)

    def forward(self, h: Tensor, own: Tensor) -> Tensor:
        """`h: [batch, runs, hidden]`, `own: [batch, runs, run, inputs]` to `[batch, runs, run, width]`."""
        weight = self.own.weight * self.before.to(self.own.weight.dtype)
        mixed = self.state(h) + F.linear(own.flatten(2), weight)
        return self._finish(torch.unflatten(mixed, -1, (self.run, self.width)))

    def one(self, h: Tensor, own: Tensor, index: int) -> Tensor:
        """`[batch, runs, width]` of the element `index` of every run; of `own` only those before it count."""
        rows = slice(index * self.width, (index + 1) * self.width)
        weight = self.own.weight[rows] * self.before[rows].to(self.own.weight.dtype)
        return self._finish(
            F.linear(h, self.state.weight[rows], self.state.bias[rows]) + F.linear(own.flatten(2), weight)
        )

    def _finish(self, mixed: Tensor) -> Tensor:
        x = F.gelu(mixed)
        for expand, contract in zip(self.expand, self.contract, strict=True):
            x = x + contract(F.gelu(expand(self.norm(x))))
        out: Tensor = self.norm(x)
        return out


class ParallelTransformer(TextNetwork):
    """A transformer over runs of elements, whose state depends on runs of earlier rounds on both sides.

    Every `rounds`-th run of a text is written in the first round, those behind them in the second, and so
    on. A run reads those of its neighbours that earlier rounds have written, and then attends to the runs of
    earlier rounds and of its own, which have read theirs. So the states of all elements of a known text
    follow in one pass, and writing a text is one pass as well, a round after the other.

    An element is known to all later rounds if `reads` is at least `run`, but for those at the end of a text
    that ends with another round than the last; `(rounds - 1) * run` are enough for these too.

    Args:
        inputs: numbers that describe an element.
        rounds: how many there are.
        run: elements of a run; only small networks lie between one of them and the next.
        hidden: width.
        layers: of the transformer.
        heads: attention heads.
        width: of the elements' states.
        input_dropout: share of elements that are hidden from others in training.
        dropout: share of numbers of input, output and every layer's additions that are dropped in training.
        reads: elements on either side of a run that it reads directly.
    """

    def __init__(
        self,
        inputs: int,
        rounds: int,
        run: int = 1,
        hidden: int = 512,
        layers: int = 8,
        heads: int = 8,
        width: int = 512,
        input_dropout: float = 0.0,
        dropout: float = 0.0,
        reads: int = 8,
    ) -> None:
        super().__init__(2 * reads * inputs, hidden, input_dropout, dropout, PLACES + rounds)
        self.inputs, self.rounds, self.run, self.reads, self.heads = inputs, rounds, run, reads, heads
        self.layers = nn.ModuleList(RotaryLayer(hidden, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden, elementwise_affine=False)
        self.within = RunHeads(inputs, run, hidden, width)

    def forward(self, values: Tensor, ctx: SequenceContext) -> Tensor:
        """`values: [batch, elements, inputs]` to states `[batch, elements, width]`."""
        values, runs = self.hide_some(ctx.hide(values), ctx.generator), self._runs(ctx.elements)
        padded, end = self._between_zeros(values), self.reads + runs * self.run
        turns = torch.arange(runs, device=values.device) % self.rounds
        known = self._known(turns).to(padded.dtype).unsqueeze(-1)
        read = [
            padded[:, self.reads + step : end + step : self.run] * known[:, number]
            for number, step in enumerate((*range(-self.reads, 0), *range(self.run, self.run + self.reads)))
        ]
        h = drop(self.embed(torch.cat(read, dim=-1), self._where(ctx, values)), self.dropout, ctx.generator)
        mask = (turns.unsqueeze(1) >= turns).unsqueeze(0)
        if ctx.mask is not None:
            mask = mask & ctx.mask[:, None, :: self.run]
        h = drop(
            self.norm(through(self.layers, self.heads, h, mask, self.dropout, ctx)),
            self.dropout,
            ctx.generator,
        )
        own = torch.unflatten(padded[:, self.reads : end], 1, (runs, self.run))
        return drop(self.within(h, own).flatten(1, 2)[:, : ctx.elements], self.dropout, ctx.generator)

    def in_rounds(self, elements: int) -> list[Tensor]:
        """The runs of every round that has any, `[some]` each."""
        runs, device = self._runs(elements), self.mix.weight.device
        return [
            torch.arange(turn, runs, self.rounds, device=device) for turn in range(min(self.rounds, runs))
        ]

    def begin(self, ctx: SequenceContext, like: Tensor) -> RoundsMemory:
        """What is remembered before the first round of texts that `ctx` describes."""
        zeros = self.mix.weight.new_zeros
        nothing = zeros(ctx.batch, self.heads, 0, self.hidden // self.heads)
        return RoundsMemory(
            self._where(ctx, like),
            self._between_zeros(zeros(ctx.batch, ctx.elements, self.inputs)),
            [(nothing, nothing) for _ in self.layers],
            None if ctx.mask is None else ctx.mask[:, :0],
        )

    def advance(self, memory: RoundsMemory, runs: Tensor, real: Tensor | None) -> Tensor:
        """The states `[batch, some, hidden]` of the runs of a round, which the memory then knows as well.

        Args:
            memory: of all rounds before.
            runs: which ones these are, `[some]`.
            real: `[batch, some]`, false at runs of padding; `None` where nothing is padded.
        """
        # What later rounds write is still zero.
        around = runs.unsqueeze(1) * self.run + self._steps(runs.device) + self.reads
        h = self.embed(memory.values[:, around].flatten(2), memory.where[:, runs])
        if real is not None and memory.seen is not None:
            memory.seen = torch.cat([memory.seen, real], dim=1)
        rotation = rotations(runs, self.hidden // self.heads)
        for number, layer in enumerate(self.layers):
            h, memory.state[number] = cast("RotaryLayer", layer).extend(
                h, rotation, memory.state[number], memory.seen
            )
        out: Tensor = self.norm(h)
        return out

    def element(self, memory: RoundsMemory, runs: Tensor, h: Tensor, index: int) -> Tensor:
        """The states `[batch, some, width]` of the element `index` of `runs: [some]`, whose own are `h`."""
        own = runs.unsqueeze(1) * self.run + torch.arange(self.run, device=runs.device)
        return self.within.one(h, memory.values[:, own + self.reads], index)

    def tell(self, memory: RoundsMemory, elements: Tensor, values: Tensor) -> None:
        """Let all that follows know `elements: [some]`, which are `values: [batch, some, inputs]`."""
        memory.values[:, elements + self.reads] = values.to(memory.values.dtype)

    def _runs(self, elements: int) -> int:
        return -(-elements // self.run)

    def _steps(self, device: torch.device) -> Tensor:
        """Where what a run reads is, counted from its first element."""
        steps = torch.arange(-self.reads, self.reads, device=device)
        return torch.where(steps < 0, steps, steps + self.run)

    def _between_zeros(self, values: Tensor) -> Tensor:
        behind = -values.shape[1] % self.run + self.reads
        return F.pad(values, (0, 0, self.reads, behind))

    def _known(self, turns: Tensor) -> Tensor:
        """Whether what may be read is of earlier rounds than `turns: [runs]`, `[runs, 2 reads]`."""
        first = torch.arange(len(turns), device=turns.device).unsqueeze(1) * self.run
        read = first + self._steps(turns.device)
        there = (read >= 0) & (read < len(turns) * self.run)
        run = read.clamp(0, len(turns) * self.run - 1) // self.run
        return there & (turns[run] < turns.unsqueeze(1))

    def _where(self, ctx: SequenceContext, like: Tensor) -> Tensor:
        """Where in its text a run is, and in which round, `[batch or 1, runs, marks]`."""
        in_text = places(ctx, like)[:, :: self.run]
        turns = torch.arange(in_text.shape[1], device=in_text.device) % self.rounds
        in_round = turns.unsqueeze(1) == torch.arange(self.rounds, device=in_text.device)
        return torch.cat([in_text, in_round.to(in_text.dtype).expand(len(in_text), -1, -1)], dim=-1)
