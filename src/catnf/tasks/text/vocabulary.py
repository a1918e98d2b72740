"""Which symbols a text is made of, and how it becomes numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from catnf.errors import InputError

Level = Literal["characters", "words"]
Codes = NDArray[np.uint8] | NDArray[np.int16]

UNKNOWN_WORD = "<unk>"
END_OF_LINE = "<eos>"
UNKNOWN_CHARACTER = "\N{REPLACEMENT CHARACTER}"

_PRIVATE = 0xE000  # first of the code points that no text uses; they stand for symbols of several characters
_AT_ONCE = 1 << 22  # characters whose words are held as strings at the same time
_LONGEST_TOLD = 40  # characters of an unknown word that are shown


class Coded(NamedTuple):
    """A text as numbers.

    Attributes:
        codes: one for every symbol, `[symbols]`.
        lowered: how often characters were unknown as they are but known in lower case.
        unknown: how often characters or words were unknown altogether.
    """

    codes: Codes
    lowered: Counter[str]
    unknown: Counter[str]


@dataclass(frozen=True)
class Vocabulary:
    """The symbols of a text.

    What is not among them is taken in lower case, where that is among them, and otherwise becomes the unknown
    symbol: one of its own, or the space, as in text8, where everything but letters is one.

    Attributes:
        level: of what a symbol is.
        symbols: by their codes.
        unknown: the code of what is not among the symbols.
    """

    level: Level
    symbols: tuple[str, ...]
    unknown: int

    def __post_init__(self) -> None:
        if len(set(self.symbols)) != len(self.symbols) or not 2 <= len(self.symbols) <= 32_767:
            raise InputError(
                f"{len(self.symbols)} symbols were given; give from 2 to 32,767 of them, each once."
            )

    def __len__(self) -> int:
        return len(self.symbols)

    def _small(self, codes: NDArray[np.int32]) -> Codes:
        """In the smallest type that holds every code."""
        return codes.astype(np.uint8) if len(self.symbols) <= 256 else codes.astype(np.int16)

    def encode(self, text: str) -> Coded:
        """The codes of a text."""
        return self._encode_words(text) if self.level == "words" else self._encode_characters(text)

    @property
    def alphabet(self) -> str:
        """What `told_vocabulary` makes a vocabulary of, whose first symbol is the unknown one."""
        return (" " if self.level == "words" else "").join(self.symbols[1:])

    def decode(self, codes: Iterable[int]) -> str:
        """The text of codes.

        >>> Vocabulary("words", (UNKNOWN_WORD, END_OF_LINE, "the", "end"), 0).decode([2, 3, 1, 2])
        'the end\\nthe'
        """
        if self.level == "characters":
            return "".join(self.symbols[code] for code in codes)
        lines: list[list[str]] = [[]]
        for code in codes:
            if self.symbols[code] == END_OF_LINE:
                lines.append([])
            else:
                lines[-1].append(self.symbols[code])
        return "\n".join(" ".join(words) for words in lines)

    @cached_property
    def _words(self) -> dict[str, int]:
        return {word: code for code, word in enumerate(self.symbols)}

    @cached_property
    def _long(self) -> dict[str, str]:
        """A private character for every symbol of several characters."""
        several = [symbol for symbol in self.symbols if len(symbol) > 1]
        return {symbol: chr(_PRIVATE + number) for number, symbol in enumerate(several)}

    def _encode_words(self, text: str) -> Coded:
        known, lowered, unknown, parts = self._words, Counter[str](), Counter[str](), []
        for words in words_of(text):
            codes = np.array([known.get(word, -1) for word in words], dtype=np.int32)
            for place in np.flatnonzero(codes < 0).tolist():
                codes[place] = known.get(words[place].lower(), self.unknown)
                (unknown if codes[place] == self.unknown else lowered)[words[place]] += 1
            parts.append(codes)
        return Coded(self._small(np.concatenate([np.zeros(0, np.int32), *parts])), lowered, unknown)

    def _encode_characters(self, text: str) -> Coded:
        for symbol, private in self._long.items():
            text = text.replace(symbol, private)
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        table = np.full(max(_PRIVATE + len(self._long), int(points.max(initial=0))) + 1, -1, dtype=np.int32)
        for code, symbol in enumerate(self.symbols):
            point = ord(self._long.get(symbol, symbol))
            if point < len(table):
                table[point] = code
        lowered, unknown = Counter[str](), Counter[str]()
        distinct = np.unique(points) if len(points) < 1 << 20 else np.flatnonzero(np.bincount(points))
        for point in distinct[table[distinct] < 0].tolist():
            character, times = chr(point), int((points == point).sum())
            small = character.lower() if character.lower() in self._words else ""
            table[point] = self._words[small] if small else self.unknown
            (lowered if small else unknown)[character] = times
        return Coded(self._small(table[points]), lowered, unknown)


def words_of(text: str) -> Iterator[list[str]]:
    """The words of a text, many at a time; the end of every line is a word of its own."""
    start = 0
    while start < len(text):
        stop = min(start + _AT_ONCE, len(text))
        while stop < len(text) and not text[stop].isspace():
            stop += 1
        piece = text[start:stop]
        yield piece.replace("\n", f" {END_OF_LINE} ").split()
        start = stop


def most_frequent_words(text: str, size: int) -> Vocabulary:
    """`<unk>` and the `size - 1` most frequent other words; of equals, the first in the alphabet."""
    counts: Counter[str] = Counter()
    for words in words_of(text):
        counts.update(words)
    counts.pop(UNKNOWN_WORD, None)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return Vocabulary("words", (UNKNOWN_WORD, *ranked[: size - 1]), 0)


def most_frequent_characters(text: str, size: int) -> Vocabulary:
    """The unknown character and the `size - 1` most frequent others of a text, in the order of Unicode."""
    counts = Counter(text)
    counts.pop(UNKNOWN_CHARACTER, None)
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    return character_vocabulary("".join(sorted(ranked[: size - 1])))


def told_vocabulary(level: Level, alphabet: str) -> Vocabulary:
    """The unknown symbol and those of `alphabet`: its characters, or its words with blanks between them."""
    if level == "characters":
        return character_vocabulary(alphabet)
    return Vocabulary("words", (UNKNOWN_WORD, *alphabet.split()), 0)


def character_vocabulary(alphabet: str) -> Vocabulary:
    """The unknown character and those of `alphabet`.

    >>> character_vocabulary("ab").encode("Abc").codes.tolist()
    [1, 2, 0]
    """
    return Vocabulary("characters", (UNKNOWN_CHARACTER, *alphabet), 0)


_LETTERS = "abcdefghijklmnopqrstuvwxyz"

TEXT8 = Vocabulary("characters", (" ", *_LETTERS), 0)
"""The 27 characters of text8, in which everything else was made a space."""

PTB = Vocabulary(
    "characters",
    (" ", UNKNOWN_WORD, "</s>", *sorted("#$&'*-./0123456789<>N\\" + _LETTERS)),
    1,
)
"""The 51 symbols of the Penn Treebank, of which `<unk>` stands for a rare word and `</s>` never occurs."""

BUILT_IN: dict[str, Vocabulary] = {"ptb": PTB, "text8": TEXT8}


def told_counts(counts: Counter[str], most: int = 8) -> str:
    """The most frequent of what was counted, in words.

    >>> told_counts(Counter("abbb"))
    "'b' (3), 'a' (1)"
    """
    shown: Sequence[tuple[str, int]] = counts.most_common(most)
    more = len(counts) - len(shown)
    cut = [(name if len(name) <= _LONGEST_TOLD else f"{name[:_LONGEST_TOLD]}...", n) for name, n in shown]
    named = ", ".join(f"{name!r} ({times:,})" for name, times in cut)
    return f"{named} and {more:,} more" if more > 0 else named
