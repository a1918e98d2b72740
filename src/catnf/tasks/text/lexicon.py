"""The most frequent words of a text of characters, with their spellings."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from catnf.errors import InputError
from catnf.nets.lexicon import LONGEST
from catnf.tasks.text.vocabulary import Codes, Vocabulary

_AT_ONCE = 1 << 24  # codes whose words are held as strings at the same time


class WordCounts(NamedTuple):
    """What a network over words knows of them.

    Attributes:
        spellings: codes of every word's symbols, sorted, `[words, LONGEST]`, with -1 behind the last one.
        counts: how often each occurs, `[words]`.
        unknown: the share of words that are others.
    """

    spellings: Tensor
    counts: Tensor
    unknown: float

    @classmethod
    def nothing(cls, words: int) -> WordCounts:
        """Of as many words, of which nothing is known: what a trained model is read into."""
        return cls(torch.full((words, LONGEST), -1, dtype=torch.int16), torch.zeros(words), 0.5)


def separators_of(vocabulary: Vocabulary) -> list[int]:
    """The codes of symbols that end a word, or `InputError` where there are none."""
    found = [code for code, symbol in enumerate(vocabulary.symbols) if symbol.isspace()]
    if not found:
        raise InputError("The text has no blanks, so no words can be told; choose another model.network.")
    return found


def count_words(codes: Codes, separators: list[int], size: int) -> WordCounts:
    """The `size` most frequent words of a text that are short enough, each with the separator that ends it.

    Words that occur once are left out: unknown words of new text will be like them, and as frequent.
    """
    ends = re.escape("".join(map(chr, separators)))
    shape = re.compile(f"[^{ends}]*[{ends}]")
    counts: Counter[str] = Counter()
    rest = ""
    for start in range(0, len(codes), _AT_ONCE):
        piece = rest + codes[start : start + _AT_ONCE].astype("<u4").tobytes().decode("utf-32-le")
        found = shape.findall(piece)
        counts.update(found)
        rest = piece[sum(map(len, found)) :]
    ranked = sorted(counts, key=lambda spelling: (-counts[spelling], spelling))
    known = sorted([word for word in ranked if len(word) <= LONGEST and counts[word] > 1][:size])
    spellings = np.full((size, LONGEST), -1, dtype=np.int16)
    for row, spelling in enumerate(known):
        spellings[row, : len(spelling)] = [ord(symbol) for symbol in spelling]
    kept = torch.zeros(size)
    kept[: len(known)] = torch.tensor([float(counts[spelling]) for spelling in known])
    total = max(1, counts.total())
    missing = total - int(kept.sum(dtype=torch.float64))
    return WordCounts(torch.from_numpy(spellings), kept, min(0.5, (missing + 1) / (total + 1)))
