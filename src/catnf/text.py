"""Texts from trained models, written anew or continued, and how likely given ones are."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from catnf.context import Context, SequenceContext
from catnf.errors import InputError
from catnf.fitted import FittedModel, load
from catnf.models.text_flow import TextModel, draw_lengths
from catnf.seeds import context_generator
from catnf.tasks.text import Text

DEFAULT_MODEL = "text/text8/mixture"
"""A bundled model: encyclopedia articles in 26 letters and spaces, digits spelled out."""
LONGEST = 100_000
"""Symbols of a text that is written."""

_AT_ONCE = 1 << 14  # symbols that are scored together, padding included, of a vocabulary of
_FEW = 256  # or fewer, and of a larger one less


@dataclass(frozen=True)
class TextOptions:
    """Which texts to write."""

    count: int = 1
    prompt: str | None = None  # what every text starts with
    length: int | None = None  # symbols, with the prompt's; by default a window, or as training had them
    temperature: float = 1.0  # 1 is the model itself
    seed: int | None = None  # for the same texts again, on the same kind of device

    def __post_init__(self) -> None:
        for name, whole in (("count", self.count), ("length", self.length)):
            if whole is not None and not isinstance(whole, Integral):
                raise InputError(f"{name} is {whole!r}; give a whole number.")
        if not isinstance(self.prompt, str | None):
            raise InputError(f"The prompt is {self.prompt!r}; give a string.")
        if self.count < 1:
            raise InputError(f"The number of samples is {self.count}; give at least 1.")
        if self.prompt == "":
            raise InputError("The prompt is empty; give at least one character, or leave it out.")


class Written(NamedTuple):
    """Texts that a model wrote.

    Attributes:
        texts: the strings.
        lowered: characters of the prompt that were taken in lower case.
        unknown: characters or words of the prompt that the model does not know.
    """

    texts: list[str]
    lowered: Counter[str]
    unknown: Counter[str]


@dataclass(frozen=True)
class ScoredText:
    """A given text and how likely it is.

    Attributes:
        text: as given.
        symbols: that it has, characters or words.
        unknown: how many of them the model does not know, and scores as its unknown symbol.
        bits: importance-weighted bound of the whole text, given how long it is.
        bits_per_symbol: the more the more unusual.
    """

    text: str
    symbols: int
    unknown: int
    bits: float
    bits_per_symbol: float


def text_task(fitted: FittedModel) -> Text:
    """The task of a model of texts, or `InputError` where it is one of something else."""
    if not isinstance(fitted.task, Text):
        raise InputError(f"{fitted.experiment.name} knows no text; choose a model of text/...")
    return fitted.task


def write_texts(fitted: FittedModel, options: TextOptions) -> Written:
    """Let a model write."""
    task = text_task(fitted)
    lowered, unknown = Counter[str](), Counter[str]()
    prompt: Tensor | None = None
    if options.prompt is not None:
        coded = task.vocabulary.encode(options.prompt)
        lowered, unknown = coded.lowered, coded.unknown
        if not len(coded.codes):
            raise InputError(
                f"The prompt {options.prompt!r} has no words; give at least one, or leave it out."
            )
        prompt = torch.from_numpy(coded.codes.astype("int64"))
    ctx = _context(fitted, task, options, prompt)
    drawn = fitted.sample(options.count, options.seed, options.temperature, ctx=ctx)
    return Written(task.texts(drawn, ctx.to("cpu")), lowered, unknown)


def sample_texts(
    count: int,
    model: FittedModel | str | Path = DEFAULT_MODEL,
    prompt: str | None = None,
    length: int | None = None,
    temperature: float = 1.0,
    seed: int | None = None,
) -> list[str]:
    """Texts of a model, given by itself, its name, its run's folder or its file.

    Args:
        count: how many.
        model: of texts; by default the bundled one.
        prompt: what every text starts with; what the model does not know becomes its unknown symbol.
        length: symbols of a text, the prompt's among them.
        temperature: 1 is the model itself.
        seed: for the same texts again.
    """
    fitted = model if isinstance(model, FittedModel) else load(model)
    return write_texts(fitted, TextOptions(count, prompt, length, temperature, seed)).texts


def score_texts(
    texts: Iterable[str],
    model: FittedModel | str | Path = DEFAULT_MODEL,
    samples: int = 10,
    seed: int = 0,
    progress: Callable[[int], None] = lambda count: None,
) -> list[ScoredText]:
    """How likely texts are, in their order.

    Args:
        texts: strings with at least one symbol. What a model does not know is taken in lower case, or else
            as its unknown symbol. A sentence for a model of sentences ends in a blank, as those it learned
            from; where it does not, one is added.
        model: of texts, given by itself, its name, its run's folder or its file; by default the bundled one.
        samples: draws of the bound for every text.
        seed: of the draws.
        progress: told how many more texts are scored.
    """
    given = [None] if isinstance(texts, str) else list(texts)
    texts = [text for text in given if isinstance(text, str)]
    if len(texts) < len(given):
        raise InputError("Texts are given as a list of strings, a single one too.")
    if not isinstance(samples, Integral) or samples < 1:
        raise InputError(f"samples is {samples!r}; give a whole number of at least 1.")
    fitted = model if isinstance(model, FittedModel) else load(model)
    task = text_task(fitted)
    end = " " if task.has_sentences else ""
    coded = [task.vocabulary.encode(text if text.endswith(end) or not text else text + end) for text in texts]
    lengths = torch.tensor([len(found.codes) for found in coded])
    _check_lengths(texts, lengths)
    at_once = _AT_ONCE * _FEW // max(_FEW, task.categories)
    nats = torch.zeros(len(coded))
    for number, rows in enumerate(_alike(lengths, at_once)):
        longest = int(lengths[rows].max())
        x = torch.zeros(len(rows), longest, dtype=torch.int64)
        for place, row in enumerate(rows.tolist()):
            x[place, : lengths[row]] = torch.from_numpy(coded[row].codes.astype("int64"))
        same = bool((lengths[rows] == longest).all())
        ctx = SequenceContext.of(x, None if same else lengths[rows])
        # Other batches have other noise, and draws take no more memory than examples.
        nats[rows] = fitted.log_prob(x, samples, seed + number, max(1, at_once // longest), ctx)
        progress(len(rows))
    bits = (-nats / math.log(2)).tolist()
    return [
        ScoredText(text, len(found.codes), found.unknown.total(), value, value / len(found.codes))
        for text, found, value in zip(texts, coded, bits, strict=True)
    ]


def _check_lengths(texts: Sequence[str], lengths: Tensor) -> None:
    for number, length in enumerate(lengths.tolist()):
        if not length:
            raise InputError(f"Text {number} is {texts[number]!r}, which has no symbols; leave it out.")


def _alike(lengths: Tensor, at_once: int) -> Iterator[Tensor]:
    """Rows that are scored together, of about the same length: together all of them."""
    order = lengths.argsort(stable=True)
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and (stop + 1 - start) * int(lengths[order[stop]]) <= at_once:
            stop += 1
        yield order[start:stop]
        start = stop


def _context(fitted: FittedModel, task: Text, options: TextOptions, prompt: Tensor | None) -> Context:
    """Lengths and prompt of the texts to write."""
    if prompt is None and options.length is None:
        return fitted.sample_context(options.count, options.seed)
    known = 0 if prompt is None else len(prompt)
    repeated = None if prompt is None else prompt.repeat(options.count, 1)
    if options.length is None and isinstance(fitted.model, TextModel) and fitted.model.lengths is not None:
        longer = fitted.model.lengths.clone()
        longer[: known + 1] = 0
        if not longer.any():
            raise InputError(
                f"The prompt has {known} symbols, but this model knows texts of up to {len(longer) - 1}; "
                "give a shorter prompt, or a length."
            )
        drawn = draw_lengths(longer, options.count, context_generator(options.seed, fitted.device))
        return replace(drawn, prompt=repeated)
    length = options.length
    if length is None:
        length = task.window if known < task.window else known + task.window
    if not known < length <= LONGEST:
        raise InputError(f"length is {length}; give one from {known + 1} to {LONGEST}.")
    return SequenceContext(options.count, length, prompt=repeated)
