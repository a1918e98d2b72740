"""A split of a text on a device, and training sentences in groups of about one length."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from catnf.tasks.text.archive import TextPart
from catnf.tasks.text.vocabulary import Codes


class Tables(NamedTuple):
    """A split on a device, in one or two bytes a symbol.

    Attributes:
        codes: running text `[symbols]`, or sentences `[sentences, window]`, 0 at their padding.
        lengths: of the sentences, `[sentences]`; `None` for running text.
    """

    codes: Tensor
    lengths: Tensor | None

    @classmethod
    def of(cls, part: TextPart, window: int, ordered: bool) -> Tables:
        """A split as it is read.

        Args:
            part: the split.
            window: of its sentences, those that fit into so many symbols.
            ordered: whether its sentences are sorted by length, so that groups are ranges.
        """
        if part.lengths is None:
            return cls(torch.from_numpy(part.codes), None)
        codes, lengths = padded(part, window)
        if ordered:
            order = np.argsort(lengths, kind="stable")
            codes, lengths = codes[order], lengths[order]
        return cls(torch.from_numpy(codes), torch.from_numpy(lengths))

    def to(self, device: torch.device) -> Tables:
        """The same on another device."""
        return Tables(self.codes.to(device), None if self.lengths is None else self.lengths.to(device))


class Group(NamedTuple):
    """Training sentences of about one length.

    Attributes:
        longest: what they are padded to.
        start: the first of them, where all are sorted by length.
        stop: behind the last of them.
        share: of all symbols.
    """

    longest: int
    start: int
    stop: int
    share: float


def grouped(lengths: Tensor, longest: Sequence[int]) -> list[Group]:
    """The groups that have sentences, the shortest first.

    Args:
        lengths: of all sentences, sorted, `[sentences]`.
        longest: largest lengths of the groups, that of the last one no smaller than any sentence's.
    """
    cuts = torch.searchsorted(lengths, torch.tensor(longest[:-1]), right=True).tolist()
    edges = pairwise([0, *cuts, len(lengths)])
    return [
        Group(size, start, stop, float(lengths[start:stop].sum() / lengths.sum()))
        for size, (start, stop) in zip(longest, edges, strict=True)
        if start < stop
    ]


def padded(part: TextPart, window: int) -> tuple[Codes, NDArray[np.int64]]:
    """Sentences of at most `window` symbols, `[sentences, window]`, and their lengths `[sentences]`."""
    assert part.lengths is not None
    lengths = part.lengths.astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    fitting = lengths <= window
    lengths, starts = lengths[fitting], starts[fitting]
    place = np.arange(window)
    real = place < lengths[:, None]
    source = np.where(real, starts[:, None] + place, 0)
    codes = part.codes[source]
    codes[~real] = 0
    return codes, lengths
