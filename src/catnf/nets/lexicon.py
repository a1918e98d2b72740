"""Words and their spellings: which words are left after the first symbols of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

LONGEST = 24
"""Symbols of a word that a lexicon can hold, the separator at its end among them."""

NOWHERE, START = 0, 1
"""Beginnings that no word has, and that all words have."""

_BASE = 0x9E3779B97F4A7C15
"""Odd, so that it has an inverse among numbers of 64 bits."""
_BITS = 1 << 64


class Followed(NamedTuple):
    """Where in its words every symbol of a text is, `[batch, elements]` each.

    Attributes:
        beginning: the number of what is written of the word before the symbol.
        word: the number of the word in the text, from 0 on.
        start: the place of the word's first symbol.
        ends: whether the symbol ends the word.
    """

    beginning: Tensor
    word: Tensor
    start: Tensor
    ends: Tensor


class Lexicon(nn.Module):
    """Words in the order of their spelling, so that those with a common beginning follow each other.

    Every word ends with a separator, for instance a blank, which occurs nowhere else in it. A beginning has a
    number; what it may become is a range of words.

    Args:
        spellings: codes of the words' symbols, sorted, `[words, LONGEST]`, with -1 behind the last one; rows
            of -1, which come last, hold no word.
        categories: symbols there are.
    """

    spellings: Tensor
    lengths: Tensor
    separators: Tensor
    longer: Tensor
    low: Tensor
    high: Tensor
    whole: Tensor
    keys: Tensor
    numbers: Tensor

    def __init__(self, spellings: Tensor, categories: int) -> None:
        super().__init__()
        self.words, self.categories = len(spellings), categories
        self.register_buffer("spellings", spellings.to(torch.int16))
        self._derive()
        # What follows from the spellings is made anew where other ones are read from a file.
        self.register_load_state_dict_post_hook(_derive_anew)  # type: ignore[no-untyped-call]

    def follow(self, x: Tensor, real: Tensor) -> Followed:
        """Where in its words every symbol `x: [batch, elements]` is, of which some are `real`."""
        place = torch.arange(x.shape[1], device=x.device).expand_as(x)
        ends = self.separators[x] & real
        before = torch.zeros_like(x)
        before[:, 1:] = ends[:, :-1].long()
        start = torch.where(before > 0, place, torch.zeros_like(place)).cummax(1).values
        # The key of a beginning is a polynomial of its codes, and so a difference of two sums.
        powers, inverses = self._powers(x.shape[1], x.device)
        sums = torch.zeros_like(x)
        sums[:, 1:] = ((x + 1) * powers)[:, :-1].cumsum(1)
        keys = (sums - sums.gather(1, start)) * inverses[start]
        found = torch.searchsorted(self.keys, keys).clamp(max=len(self.keys) - 1)
        beginning = torch.where(self.keys[found] == keys, self.numbers[found], NOWHERE)
        return Followed(beginning, before.cumsum(1), start, ends)

    @staticmethod
    def _powers(count: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Powers of the base and of its inverse, from 0 on, `[count]` each."""
        out = []
        for factor in (_BASE, pow(_BASE, -1, _BITS)):
            factors = torch.full((count,), _signed(factor), device=device)
            factors[:1].fill_(1)  # and not = 1, which would wait for the device
            out.append(factors.cumprod(0))
        return out[0], out[1]

    def _derive(self) -> None:
        """Number all beginnings, level by level."""
        spellings = self.spellings.cpu().numpy().astype(np.int64)
        lengths = (spellings >= 0).sum(1)
        used = int((lengths > 0).sum())
        separators = np.zeros(self.categories, dtype=bool)
        separators[spellings[np.arange(used), lengths[:used] - 1]] = True
        low, high, keys, ends = [0, 0], [0, used], [_signed(_NO_KEY), 0], [self.words, self.words]
        rows, parents = np.arange(used), np.full(used, START)
        longer: list[NDArray[np.int64]] = []
        own = np.zeros(used, dtype=np.uint64)
        power = 1
        for depth in range(LONGEST):
            kept = lengths[rows] > depth
            rows, parents, own = rows[kept], parents[kept], own[kept]
            if not len(rows):
                break
            codes = spellings[rows, depth]
            own = own + (codes + 1).astype(np.uint64) * np.uint64(power)
            power = power * _BASE % _BITS
            fresh = np.ones(len(rows), dtype=bool)
            fresh[1:] = (parents[1:] != parents[:-1]) | (codes[1:] != codes[:-1])
            first = np.flatnonzero(fresh)
            numbers = len(low) + np.arange(len(first))
            longer.append(np.stack([parents[first], codes[first], numbers]))
            low += rows[first].tolist()
            high += (rows[np.append(first[1:], len(rows)) - 1] + 1).tolist()
            keys += own[first].view(np.int64).tolist()
            ends += np.where(lengths[rows[first]] == depth + 1, rows[first], self.words).tolist()
            parents = numbers[np.cumsum(fresh) - 1]
        table = np.full((len(low), self.categories), NOWHERE)
        for parent, code, number in longer:
            table[parent, code] = number
        order = np.argsort(np.array(keys), kind="stable")
        device = self.spellings.device

        def keep(name: str, values: NDArray[Any]) -> None:
            self.register_buffer(name, torch.from_numpy(values).to(device), persistent=False)

        keep("lengths", lengths)
        keep("separators", separators)
        keep("longer", table)  # [beginnings, categories], the beginning that is longer by a symbol
        keep("low", np.array(low))  # [beginnings], the first word with it
        keep("high", np.array(high))  # behind the last one
        keep("whole", np.array(ends))  # the word that it is, separator and all, or the number of words
        keep("keys", np.array(keys)[order])
        keep("numbers", order)


def _derive_anew(module: Lexicon, _: object) -> None:
    module._derive()


_NO_KEY = 0x8000000000000001
"""The key of what no word begins with, which no polynomial is likely to give."""


def _signed(number: int) -> int:
    """A number of 64 bits as one with a sign."""
    return number - _BITS if number >= _BITS // 2 else number


class LogRangeSums(torch.autograd.Function):
    """`log sum_{low <= v < high} softmax(logits)[row, v]`, with `EMPTY` for ranges without words.

    Sums are differences of running sums in float64, so that unlikely words keep their digits.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, row: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """`logits: [rows, words]`, `row: [places]`, never falling, `low` and `high: [places, ranges]`, giving
        the same.
        """
        probabilities = torch.softmax(logits.float(), dim=-1)
        out = torch.empty(low.shape, device=logits.device)
        ctx.pieces = list(_pieces(row, len(logits)))
        for rows, places in ctx.pieces:
            sums = running_sums(probabilities[rows])
            out[places] = log_ranges(sums, row[places] - rows.start, low[places], high[places])
        ctx.save_for_backward(probabilities, row, low, high, out)
        ctx.dtype = logits.dtype
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        probabilities, row, low, high, out = ctx.saved_tensors
        # Empty ranges, and ranges less likely than any word should be, have nothing to say.
        pull = torch.where(out > _FLOOR, gradient.double() * torch.exp(-out.double().clamp(min=_FLOOR)), 0.0)
        back = torch.empty_like(probabilities, dtype=ctx.dtype)
        for rows, places in ctx.pieces:
            p = probabilities[rows]
            steps = torch.zeros(p.shape[0], p.shape[1] + 1, dtype=torch.float64, device=p.device)
            base = (row[places] - rows.start).unsqueeze(1) * steps.shape[1]
            steps.view(-1).scatter_add_(0, (base + low[places]).flatten(), pull[places].flatten())
            steps.view(-1).scatter_add_(0, (base + high[places]).flatten(), -pull[places].flatten())
            weighted = steps.cumsum_(1)[:, :-1].float().mul_(p)
            back[rows] = weighted.addcmul_(p, weighted.sum(1, keepdim=True), value=-1.0)
        return back, None, None, None


_ROWS_AT_ONCE = 64
"""Whose running sums a processor's cache holds, for some ten thousand words."""


def _pieces(row: Tensor, rows: int) -> Iterator[tuple[slice, slice]]:
    """Some of the rows at a time, and the places that are of them. A GPU takes all at once."""
    size = rows if row.is_cuda else _ROWS_AT_ONCE
    starts = list(range(0, rows, size))
    cuts = [0] if row.is_cuda else torch.searchsorted(row, torch.tensor(starts)).tolist()
    for start, cut, end in zip(starts, cuts, [*cuts[1:], len(row)], strict=True):
        yield slice(start, min(rows, start + size)), slice(cut, end)


EMPTY = -1e4
_FLOOR = -60.0


def running_sums(probabilities: Tensor) -> Tensor:
    """Of `probabilities: [rows, words]`, what comes up to and with every word, in float64."""
    return torch.cumsum(probabilities, 1, dtype=torch.float64)


def log_ranges(sums: Tensor, row: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The logarithms of what running `sums: [rows, words]` gain in ranges, `[places, ranges]`, in float32."""
    flat, base = sums.view(-1), row.unsqueeze(1) * sums.shape[1] - 1
    below = torch.where(low > 0, flat[(base + low).clamp(min=0)], 0.0)
    mass = torch.where(high > low, flat[(base + high).clamp(min=0)] - below, 0.0)
    return torch.where(mass > 0.0, mass.clamp(min=1e-300).log(), EMPTY).float()
