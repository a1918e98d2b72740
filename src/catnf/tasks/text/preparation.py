"""From texts to compact arrays: vocabulary, codes, word vectors, and an account of what was unknown."""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from catnf.errors import InputError, StorageError
from catnf.tasks.download import Progress
from catnf.tasks.files import find_data
from catnf.tasks.text.archive import TextData, TextPart
from catnf.tasks.text.sources import NAMES, level_of, read_source, read_text_file
from catnf.tasks.text.vocabulary import (
    BUILT_IN,
    PTB,
    Level,
    Vocabulary,
    most_frequent_characters,
    most_frequent_words,
)

PTB_WINDOW = 288
"""Sentences of the Penn Treebank with fewer symbols than this are kept."""

VECTORS = "glove/glove6B_50d_subset.npz"
VECTORS_TEXT = "glove/glove.6B.50d.txt"
VECTORS_ADDRESS = "https://nlp.stanford.edu/data/glove.6B.zip"

_SIZES: dict[Level, int] = {"characters": 256, "words": 10_000}


@dataclass(frozen=True)
class Summary:
    """What was made of a text.

    Attributes:
        fingerprint: of the prepared text.
        categories: symbols of the vocabulary.
        symbols: of every split.
        sentences: of every split, where there are sentences.
        unknown: by split, how often which characters or words became the unknown symbol.
        lowered: by split, how often which characters were taken in lower case.
        vectors: words that have a vector; `None` for characters.
        unknown_symbol: what unknown characters or words become.
    """

    fingerprint: str
    categories: int
    symbols: Mapping[str, int]
    sentences: Mapping[str, int]
    unknown: Mapping[str, Counter[str]]
    lowered: Mapping[str, Counter[str]]
    vectors: int | None
    unknown_symbol: str


def prepare(
    source: str,
    path: Path,
    level: Level | None = None,
    size: int | None = None,
    progress: Progress = lambda name, done, total: None,
) -> Summary:
    """Read a text, known by name or a user's UTF-8 file, and write it to `path`.

    Args:
        source: one of `NAMES`, or the path of a file.
        path: of the file to write.
        level: of a user's file.
        size: of the vocabulary where that is chosen from the text: by default 256 characters, 10,000 words.
        progress: told about downloads.
    """
    level = level_of(source, level)
    if size is not None and (source in BUILT_IN or not 2 <= size <= 32_767):
        fixed = f"{source} has {len(BUILT_IN[source])} symbols" if source in BUILT_IN else f"size is {size}"
        raise InputError(f"{fixed}; leave the size out, or give one from 2 to 32,767 for words or a file.")
    texts = read_source(source, progress) if source in NAMES else read_text_file(Path(source))
    if source == "ptb":
        return _write(path, PTB, _sentences(texts), source)
    if level == "words" and source != "text8-words":
        texts = {split: text.lower() for split, text in texts.items()}
    return _write(path, _vocabulary(source, level, texts["train"], size), texts, source)


def _vocabulary(source: str, level: Level, text: str, size: int | None) -> Vocabulary:
    if source in BUILT_IN:
        return BUILT_IN[source]
    size = _SIZES[level] if size is None else size
    return most_frequent_words(text, size) if level == "words" else most_frequent_characters(text, size)


def _sentences(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Lines as words with a space after each, those that are short enough."""
    lines = {
        split: ["".join(f"{word} " for word in line.split()) for line in text.splitlines()]
        for split, text in texts.items()
    }
    return {
        split: [line for line in some if 0 < len(PTB.encode(line).codes) < PTB_WINDOW]
        for split, some in lines.items()
    }


def _write(path: Path, vocabulary: Vocabulary, texts: Mapping[str, str | list[str]], source: str) -> Summary:
    parts, unknown, lowered = {}, {}, {}
    for split, text in texts.items():
        whole = text if isinstance(text, str) else "".join(text)
        coded = vocabulary.encode(whole)
        lengths = None
        if not isinstance(text, str):
            lengths = np.array([len(vocabulary.encode(line).codes) for line in text], dtype=np.int16)
        parts[split] = TextPart(coded.codes, lengths)
        unknown[split], lowered[split] = coded.unknown, coded.lowered
    vectors = word_vectors(vocabulary) if vocabulary.level == "words" else None
    about = {"source": source if source in NAMES else Path(source).name, "rule": _rule(source, vocabulary)}
    data = TextData(vocabulary, parts, parts["train"].counts(len(vocabulary)), vectors, about)
    data.save(path)
    return Summary(
        data.fingerprint(),
        len(vocabulary),
        {split: len(part.codes) for split, part in parts.items()},
        {split: len(part.lengths) for split, part in parts.items() if part.lengths is not None},
        unknown,
        lowered,
        _with_vectors(vocabulary, vectors),
        vocabulary.symbols[vocabulary.unknown],
    )


def _with_vectors(vocabulary: Vocabulary, vectors: NDArray[np.float16] | None) -> int | None:
    if vocabulary.level == "characters":
        return None
    return 0 if vectors is None else int(vectors.any(axis=1).sum())


def _rule(source: str, vocabulary: Vocabulary) -> str:
    match source:
        case "ptb":
            return f"a word and a space after it; <unk> is one symbol; sentences of fewer than {PTB_WINDOW}"
        case "text8":
            return "the first 90 million characters train, 5 million validate, 5 million test"
        case "text8-words":
            return "as text8; a word that the border of a split cuts counts as two"
        case "wikitext2" | "wikitext103":
            return "lower case; the end of a line is a word; words outside of the vocabulary are <unk>"
        case _:
            what = "lower case; the end of a line is a word" if vocabulary.level == "words" else "as written"
            return f"{what}; the first 90 % train, 5 % validate, 5 % test"


def word_vectors(vocabulary: Vocabulary) -> NDArray[np.float16] | None:
    """GloVe's vectors of the words, `[words, 50]`, zero where there is none; `None` without the file."""
    found = find_data(VECTORS) or find_data(VECTORS_TEXT)
    if found is None:
        return None
    wanted = {word: code for code, word in enumerate(vocabulary.symbols)}
    out = np.zeros((len(vocabulary), 50), dtype=np.float16)
    try:
        if found.suffix == ".npz":
            with np.load(found, allow_pickle=False) as stored:
                words, vectors = stored["words"].tolist(), stored["vectors"]
            for place, word in enumerate(words):
                if word in wanted:
                    out[wanted[word]] = vectors[place]
        else:
            with found.open(encoding="utf-8") as file:
                for line in file:
                    word, _, numbers = line.partition(" ")
                    if word in wanted:
                        out[wanted[word]] = np.array(numbers.split(), dtype=np.float16)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise StorageError(f"{found} holds no word vectors; get it again from {VECTORS_ADDRESS}.") from error
    return out
