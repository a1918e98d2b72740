"""Texts as a task: windows of running text, or sentences of given lengths."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from catnf.context import Context, SequenceContext
from catnf.errors import InputError, StorageError
from catnf.tasks.task import (
    Amounts,
    Measured,
    Measurement,
    Measuring,
    Part,
    Split,
    Task,
    check_evaluation,
    positive_frequencies,
    spread,
)
from catnf.tasks.text.archive import TextData, TextPart
from catnf.tasks.text.lexicon import WordCounts, count_words, separators_of
from catnf.tasks.text.sources import NAMES, dataset_path
from catnf.tasks.text.tables import Group, Tables, grouped
from catnf.tasks.text.vocabulary import BUILT_IN, UNKNOWN_WORD, Level, Vocabulary, told_vocabulary


@dataclass(frozen=True)
class Text(Task):
    """A text that `catnf data text` prepared.

    Running text is cut into windows: at random places for training, one after another for evaluation, where
    the last one may be shorter. Sentences are examples of their own, those that fit into a window. The file
    is read when it is first needed: a trained model that knows its symbols writes without it.

    Attributes:
        source: one of `NAMES`, or the path of a prepared file or of the text it was made of.
        level: of what a symbol is.
        window: symbols of an example.
        words: symbols of a vocabulary of words.
        alphabet: characters of a user's text, or its words with blanks between them; empty where the
            vocabulary is known, or in the file.
        groups: largest lengths of the groups that training sentences are put into, so that short ones need
            not be padded to a window; a step draws from one of them, chosen by its share of all symbols.
    """

    source: str = "text8"
    level: Level = "characters"
    window: int = 256
    words: int = 10_000
    alphabet: str = ""
    groups: tuple[int, ...] = ()
    _kept: dict[str, TextData] = field(default_factory=dict, init=False, repr=False, compare=False)
    _tables: dict[tuple[str, torch.device], Tables] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _seen: dict[str, frozenset[str]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def name(self) -> str:
        return f"text/{self.source}" if self.source in NAMES else "text/file"

    @property
    def vocabulary(self) -> Vocabulary:
        """The symbols; from the file where nothing else tells them."""
        if self.source in BUILT_IN:
            return BUILT_IN[self.source]
        return told_vocabulary(self.level, self.alphabet) if self.alphabet else self._header.vocabulary

    @property
    def categories(self) -> int:
        return self.words if self.level == "words" else len(self.vocabulary)

    @property
    def unit(self) -> str:
        return "char" if self.level == "characters" else "word"

    @property
    def pooled(self) -> bool:
        return True

    @property
    def amounts(self) -> Amounts:
        # Texts are written symbol by symbol, and their bounds hardly depend on the draws.
        return Amounts(draws=4, generated=200, reconstructed=64)

    @property
    def has_sentences(self) -> bool:
        """Whether examples are sentences, whose lengths are given."""
        return self.source == "ptb"

    def fingerprint(self) -> str:
        train = {"train": self._part("train")}
        return TextData(self.vocabulary, train, self._header.counts).fingerprint()

    def batch(self, size: int, generator: torch.Generator) -> tuple[Tensor, SequenceContext]:
        device = generator.device
        codes, lengths = self._table("train", device)
        if lengths is not None:
            chosen = torch.randint(len(lengths), (size,), device=device, generator=generator)
            x = codes[chosen].long()
            return x, SequenceContext.of(x, lengths[chosen])
        first = torch.randint(len(codes) - self.window + 1, (size, 1), device=device, generator=generator)
        x = codes[first + torch.arange(self.window, device=device)].long()
        return x, SequenceContext.of(x)

    def buckets(self) -> list[float]:
        return [group.share for group in self._grouped()] if self.groups else super().buckets()

    def parts(self, size: int, generator: torch.Generator, bucket: int = 0) -> list[Part]:
        """Sentences of one group, the more the shorter they are: as many symbols as in `size` windows."""
        if not self.groups:
            return super().parts(size, generator, bucket)
        codes, lengths = self._table("train", generator.device)
        assert lengths is not None
        group = self._grouped()[bucket]
        shape = (max(1, size * self.window // group.longest),)
        chosen = torch.randint(group.start, group.stop, shape, device=generator.device, generator=generator)
        x = codes[chosen, : group.longest].long()
        return [Part(x, SequenceContext.of(x, lengths[chosen]), 1.0)]

    def _grouped(self) -> list[Group]:
        """The groups that have sentences, the shortest first."""
        lengths = self._table("train", torch.device("cpu")).lengths  # sorted
        assert lengths is not None
        return grouped(lengths, (*self.groups, self.window))

    def frequencies(self) -> Tensor:
        try:
            counts = torch.from_numpy(self._header.counts).double()
        except OSError:  # no data: what a trained model is read into
            counts = torch.ones(self.categories, dtype=torch.float64)
        return positive_frequencies(counts / counts.sum())

    def vectors(self) -> Tensor | None:
        """Vectors of the words `[words, width]`, zero where a word has none; `None` where there are none."""
        try:
            found = self._header.vectors
        except OSError:
            return None
        return None if found is None else torch.from_numpy(found.astype(np.float32))

    def word_counts(self, size: int) -> WordCounts:
        """The most frequent words of a text of characters."""
        separators = separators_of(self.vocabulary)
        try:
            return count_words(self._part("train").codes, separators, size)
        except OSError:  # no data: what a trained model is read into
            return WordCounts.nothing(size)

    def length_counts(self) -> Tensor | None:
        """How often sentences of 0, 1, 2, ... symbols occur in training, `[window + 1]`, one added to each.

        No sentence is empty. `None` for running text, whose windows are all of one length.
        """
        if not self.has_sentences:
            return None
        counts = torch.ones(self.window + 1)
        counts[0] = 0.0
        try:
            lengths = self._table("train", torch.device("cpu")).lengths
        except OSError:
            return counts
        assert lengths is not None
        return counts + torch.bincount(lengths, minlength=self.window + 1)

    def evaluation(self, split: Split, limit: int | None = None) -> Tensor:
        return self._evaluated(split, limit)[0]

    def evaluation_context(self, split: Split, limit: int | None = None) -> SequenceContext:
        return self._evaluated(split, limit)[1]

    def extra_bits(self, split: Split, limit: int | None = None) -> dict[str, float]:
        """`bits_length`: what the prior over lengths adds to a symbol's bits, which leave it out."""
        counts = self.length_counts()
        if counts is None:
            return {}
        lengths = self.evaluation_context(split, limit).counts(counts).long()
        nats = -torch.log(counts / counts.sum())[lengths]
        return {"bits_length": float(nats.sum() / lengths.sum()) / math.log(2)}

    def context(self, x: Tensor) -> SequenceContext:
        if self.has_sentences:
            raise InputError(
                "Symbols do not tell where sentences end; give the context they were drawn with, "
                "or their lengths, as ctx=SequenceContext.of(x, lengths)."
            )
        return SequenceContext.of(x)

    def sample_context(self, size: int, device: torch.device | str = "cpu") -> SequenceContext:
        return SequenceContext(batch=size, elements=self.window)

    def texts(self, x: Tensor, ctx: Context) -> list[str]:
        """Samples `x: [batch, elements]` as strings."""
        words, lengths = self.vocabulary, ctx.counts(x).tolist()
        return [words.decode(row[:length]) for row, length in zip(x.tolist(), lengths, strict=True)]

    def sample_rows(self, x: Tensor, ctx: Context) -> tuple[list[str], list[list[str]]]:
        return ["text"], [[text] for text in self.texts(x, ctx)]

    def sample_metrics(self, x: Tensor, ctx: Context | None = None) -> dict[str, float]:
        """`known_words`, the share of written words that the training text has; nothing without that text.

        Of a text that starts and ends anywhere, the first and the last word do not count. With a vocabulary
        of words, those that are not `<unk>` are known.
        """
        known = self._are_known(x, SequenceContext.of(x) if ctx is None else ctx)
        return {"known_words": sum(known) / len(known)} if known else {}

    def measure(self, x: Tensor, ctx: Context, how: Measuring) -> Measured:
        known = self._are_known(x, ctx)
        if not known:
            return Measured({}, ["No words could be compared with those of the training text."])
        share = Measurement(sum(known) / len(known), len(known), "words of samples that training text has")
        return Measured({"known_words": share}, [])

    def _are_known(self, x: Tensor, ctx: Context) -> list[bool]:
        """Of every written word, whether it is known; empty where nothing tells."""
        split = [text.split() for text in self.texts(x, ctx)]
        if self.level == "words":
            return [word != UNKNOWN_WORD for text in split for word in text]
        try:
            known = self._known_words()
        except OSError:
            return []
        return [word in known for text in split for word in (text if self.has_sentences else text[1:-1])]

    def check(self, x: Tensor) -> None:
        super().check(x)
        if x.numel() and not 0 <= int(x.min()) <= int(x.max()) < self.categories:
            raise InputError(
                f"Symbols go from {int(x.min())} to {int(x.max())}; "
                f"give those from 0 to {self.categories - 1}."
            )

    @property
    def _header(self) -> TextData:
        """What a file tells besides its texts."""
        return self._data("")

    def _part(self, split: str) -> TextPart:
        return self._data(split).splits[split]

    def _data(self, split: str) -> TextData:
        """What a file tells, with the text of a split, or of none; an error where its symbols are others."""
        if split not in self._kept:
            path = dataset_path(self.source, self.level)
            data = TextData.load(path, names=[split] if split else ())
            if self.alphabet and data.vocabulary != told_vocabulary(self.level, self.alphabet):
                raise StorageError(
                    f"{path} has other {self.level} than task.alphabet, so it was made of another text; "
                    f"make it anew with catnf data text FILE --level {self.level} --size {self.categories}."
                )
            if self.level == "words" and len(data.vocabulary) != self.words:
                raise StorageError(
                    f"The prepared text has {len(data.vocabulary)} words, but task.words is {self.words}; "
                    f"set task.words={len(data.vocabulary)}."
                )
            self._kept[split] = data
        return self._kept[split]

    def _table(self, split: str, device: torch.device) -> Tables:
        if (split, device) not in self._tables:
            part = self._part(split)
            if part.lengths is None and len(part.codes) < self.window:
                raise InputError(
                    f"The {split} text has {len(part.codes)} symbols, fewer than task.window={self.window}; "
                    "choose a smaller window or a longer text."
                )
            self._tables[split, device] = Tables.of(part, self.window, split == "train").to(device)
        return self._tables[split, device]

    def _evaluated(self, split: Split, limit: int | None) -> tuple[Tensor, SequenceContext]:
        check_evaluation(split, limit)
        codes, lengths = self._table(split, torch.device("cpu"))
        if lengths is not None:
            chosen = spread(len(lengths), limit)
            x = codes[chosen].long()
            return x, SequenceContext.of(x, lengths[chosen])
        first = spread(-(-len(codes) // self.window), limit) * self.window
        place = first.unsqueeze(1) + torch.arange(self.window)
        x = torch.where(place < len(codes), codes[place.clamp(max=len(codes) - 1)].long(), 0)
        own = (len(codes) - first).clamp(max=self.window)  # the last window of a text may be shorter
        return x, SequenceContext.of(x, own if bool((own < self.window).any()) else None)

    def _known_words(self) -> frozenset[str]:
        if "words" not in self._seen:
            part, words = self._part("train"), self.vocabulary
            found: set[str] = set()
            step = 1 << 22
            for start in range(0, len(part.codes), step):
                found.update(words.decode(part.codes[start : start + step].tolist()).split())
            self._seen["words"] = frozenset(found)
        return self._seen["words"]
