"""Symbols of texts and their codes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catnf.errors import InputError
from catnf.tasks.text.vocabulary import (
    END_OF_LINE,
    PTB,
    TEXT8,
    UNKNOWN_WORD,
    Vocabulary,
    character_vocabulary,
    most_frequent_characters,
    most_frequent_words,
)


def test_sizes_of_the_paper() -> None:
    assert (len(PTB), len(TEXT8)) == (51, 27)
    assert len(set(PTB.symbols)) == 51


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz "))
def test_text8_there_and_back(text: str) -> None:
    coded = TEXT8.encode(text)
    assert coded.codes.dtype == np.uint8
    assert TEXT8.decode(coded.codes.tolist()) == text
    assert not coded.unknown
    assert not coded.lowered


def test_unknown_characters_are_counted_and_mapped() -> None:
    coded = TEXT8.encode("Zoë, 42!")
    assert TEXT8.decode(coded.codes.tolist()) == "zo      "
    assert coded.lowered == {"Z": 1}
    assert coded.unknown == {"ë": 1, ",": 1, "4": 1, "2": 1, "!": 1}


def test_rare_words_of_the_treebank_are_one_symbol() -> None:
    coded = PTB.encode("the <unk> N Xé ")
    assert len(coded.codes) == 11
    assert PTB.decode(coded.codes.tolist()) == "the <unk> N x<unk> "
    assert coded.lowered == {"X": 1}
    assert coded.unknown == {"é": 1}


def test_words_in_the_order_of_their_frequency() -> None:
    vocabulary = most_frequent_words("b a a c\nb a d\n", 5)
    assert vocabulary.symbols == (UNKNOWN_WORD, "a", END_OF_LINE, "b", "c")
    coded = vocabulary.encode("a e\nb e f")
    assert coded.codes.tolist() == [1, 0, 2, 3, 0, 0]
    assert coded.unknown == {"e": 2, "f": 1}
    assert vocabulary.decode(coded.codes.tolist()) == "a <unk>\nb <unk> <unk>"
    coded = vocabulary.encode("A E b")
    assert coded.codes.tolist() == [1, 0, 3]
    assert coded.lowered == {"A": 1}
    assert coded.unknown == {"E": 1}


@pytest.mark.parametrize("text", ["\n", "a\n\n\nb\n", "\n\na b", "b a\n"])
def test_ends_of_lines_there_and_back(text: str) -> None:
    words = most_frequent_words("a b\n", 4)
    assert words.decode(words.encode(text).codes.tolist()) == text


def test_characters_of_a_text() -> None:
    vocabulary = most_frequent_characters("aaabbcd", 4)
    assert vocabulary.symbols == ("\N{REPLACEMENT CHARACTER}", "a", "b", "c")
    assert vocabulary == character_vocabulary("abc")


def test_many_symbols_take_two_bytes() -> None:
    many = character_vocabulary("".join(chr(0x4E00 + i) for i in range(300)))
    assert many.encode("一\U0001f600").codes.tolist() == [1, 0]
    assert many.encode("一").codes.dtype == np.int16


def test_symbols_twice_are_refused() -> None:
    with pytest.raises(InputError, match="3 symbols were given; give from 2 to 32,767 of them, each once"):
        Vocabulary("words", ("a", "b", "a"), 0)
