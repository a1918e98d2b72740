"""Models of texts: autoregressive flows, a parallel one, and baselines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from catnf.encodings import Encoding, JointEncoding, MixtureEncoding, WordEncoding
from catnf.encodings.words import start_vectors
from catnf.errors import InputError
from catnf.flows.actnorm import ActNorm
from catnf.flows.anchors import SymbolReader
from catnf.flows.autoregressive import AutoregressiveMixture, ChannelStep, Reversed
from catnf.flows.category_mixture import CategoryMixture
from catnf.flows.category_rounds import CategoryRounds
from catnf.flows.transform import Sequential, Transform
from catnf.models import Model, TextFlow
from catnf.models.baselines import LanguageModel
from catnf.nets import (
    BidirectionalLSTM,
    CausalLSTM,
    CausalTransformer,
    ChannelHeads,
    LexicalNetwork,
    Lexicon,
    LikelihoodHeads,
    LinearRecurrence,
    ParallelTransformer,
)
from catnf.nets.channels import CategoryWeights
from catnf.nets.sequence import Causal, check_share
from catnf.tasks.task import Task
from catnf.tasks.text.data import Text
from catnf.tasks.text.lexicon import WordCounts

_MOST_AROUND = 1024  # symbols or rounds: each costs time in every step, and windows are rarely longer
_TABLE_LIMIT = 256
"""Up to so many categories every one has a mean and a scale of its own, and the decoder is Bayes' rule."""


@dataclass(frozen=True)
class TextModelConfig:
    """Sizes of a model of texts; the defaults are the paper's for text8.

    Kinds are `text-flow`, an autoregressive flow; `text-latent`, the same flow with the encoding of Latent
    NF; `text-parallel`, a flow of a few couplings, each over many places of a text; `text-lm`, the language
    model without latents.
    """

    kind: Literal["text-flow", "text-latent", "text-parallel", "text-lm"] = "text-flow"
    # Over time; a text-parallel always has a transformer.
    network: Literal["lstm", "transformer", "linear-recurrence", "lexicon"] = "lstm"
    lexicon: int = 10_000  # words that a network of that name, an LSTM over words, knows
    channels: int = 3  # latent channels of a symbol
    layers: int = 1  # couplings of the flow
    mixtures: int = 27  # logistics in a mixture coupling that is not anchored
    anchored: bool = True  # whether the first coupling of a text-flow or text-latent starts at the symbols
    changes: bool = True  # whether an anchored coupling changes the logistics of up to 256 symbols it weighs
    hidden: int = 1024  # width of the network over time
    blocks: int = 2  # its layers
    heads: int = 8  # attention heads
    # Symbols before each symbol, of a text-parallel also behind it, that a network over time other than an
    # LSTM reads directly.
    reads: int = 1
    rounds: int = 8  # couplings of a text-parallel: it writes every 8th run first, then those after them
    run: int = 1  # symbols that follow each other and that a coupling of a text-parallel writes together
    width: int = 256  # of the network over channels, for each of them; of a text-parallel, over a run
    features: int = 64  # width of the embedding of symbols that encoders and the language model see
    encoder_hidden: int = 512  # width of the encoder and decoder of Latent NF, and of the decoder of words
    decoder: Literal["bayes", "network", "tied"] = "bayes"  # of words, of which there are more than 256
    input_dropout: float = 0.05  # share of symbols that are hidden from those after them in training
    dropout: float = 0.0  # share of numbers dropped in the network over time in training
    weight_dropout: float = 0.0  # share of an LSTM's weights over time that are dropped in training
    feed_forward: int = 0  # width of a feed-forward layer after an LSTM, in multiples of hidden; 0 for none
    reach: float = 10.0  # how many times farther than other weights the tables of encodings move in a step
    spread: float = 4.0  # how many times farther apart than elsewhere symbols start if the flow is anchored

    def __post_init__(self) -> None:
        self._check_numbers()
        self._check_choices()

    def _check_numbers(self) -> None:
        names = (
            "channels",
            "layers",
            "mixtures",
            "hidden",
            "blocks",
            "heads",
            "reads",
            "rounds",
            "run",
            "width",
            "lexicon",
        )
        for name in (*names, "features", "encoder_hidden"):
            if getattr(self, name) < 1:
                raise InputError(f"model.{name} is {getattr(self, name)}; give at least 1.")
        for name in ("reads", "rounds", "run"):
            if getattr(self, name) > _MOST_AROUND:
                raise InputError(f"model.{name} is {getattr(self, name)}; give from 1 to {_MOST_AROUND:,}.")
        if self.feed_forward < 0:
            raise InputError(f"model.feed_forward is {self.feed_forward}; give 0 for none, or more.")
        for name in ("input_dropout", "dropout", "weight_dropout"):
            check_share(f"model.{name}", getattr(self, name))
        for name in ("reach", "spread"):
            if not getattr(self, name) > 0:
                raise InputError(f"model.{name} is {getattr(self, name)}; give a number above 0.")

    def _check_choices(self) -> None:
        """What goes together."""
        transformer = self.network == "transformer" or self.kind == "text-parallel"
        network = "transformer" if transformer else self.network
        recurrent = network in ("lstm", "lexicon")
        if self.network == "lexicon" and not (self.anchored and self.kind in ("text-flow", "text-lm")):
            raise InputError(
                "model.network is lexicon, but only a language model, or a text-flow that is anchored, can "
                "follow it; use model.network=lstm."
            )
        if not recurrent and self.weight_dropout:
            raise InputError(
                f"model.weight_dropout is {self.weight_dropout}, but a {network} has no matrices over time; "
                "use model.dropout, or model.network=lstm."
            )
        if not recurrent and self.feed_forward:
            raise InputError(
                f"model.feed_forward is {self.feed_forward}, but every layer of a {network} has one anyway; "
                "set model.feed_forward=0, or model.network=lstm."
            )
        if transformer and (self.hidden % self.heads or self.hidden // self.heads % 2):
            raise InputError(
                f"model.hidden is {self.hidden}; choose an even multiple of the {self.heads} attention heads."
            )
        flow = self.kind in ("text-flow", "text-latent")
        if not self.changes and not (flow and self.anchored):
            raise InputError(
                "model.changes is false, but only an anchored flow that writes symbols one by one has the "
                "choice; use model.changes=true."
            )
        if self.kind == "text-parallel" and not (self.anchored and self.layers == 1):
            raise InputError(
                f"model.anchored is {str(self.anchored).lower()} and model.layers is {self.layers}, but a "
                "text-parallel is anchored and has model.rounds couplings; leave both out."
            )
        if self.kind == "text-parallel" and self.reads < self.run:
            raise InputError(
                f"model.reads is {self.reads}, so that no run would read all of the model.run={self.run} "
                f"symbols of another; give at least {self.run}."
            )
        if self.reads > 1 and recurrent:
            raise InputError(
                f"model.reads is {self.reads}, but only a transformer or linear-recurrence reads several "
                "symbols directly; leave it out, or use model.network=transformer."
            )
        if self.encoder_hidden % 2:
            raise InputError(f"model.encoder_hidden is {self.encoder_hidden}; give an even number.")

    def make(self, task: Task) -> Model:
        """A freshly initialized model for `task`."""
        if not isinstance(task, Text):
            raise InputError(f"Model {self.kind} is for texts, but {task.name} is none; choose another kind.")
        if self.network == "lexicon" and task.level == "words":
            raise InputError("model.network is lexicon, which is for characters; use model.network=lstm.")
        vectors = task.vectors() if task.level == "words" else None
        words = task.word_counts(self.lexicon) if self.network == "lexicon" else None
        return build_text_model(self, task.frequencies(), task.length_counts(), vectors, words)


def build_text_model(
    config: TextModelConfig,
    frequencies: Tensor,
    lengths: Tensor | None = None,
    vectors: Tensor | None = None,
    words: WordCounts | None = None,
) -> Model:
    """A freshly initialized model of texts.

    Args:
        config: kind and sizes.
        frequencies: training frequencies of the symbols, `[categories]`.
        lengths: how often texts of 0, 1, 2, ... symbols occur, `[longest + 1]`; `None` where all are alike.
        vectors: of symbols that are words, `[categories, width]`, zero where a word has none.
        words: that symbols make, for a network with a lexicon.
    """
    if config.kind == "text-lm":
        return _language_model(config, frequencies, lengths, vectors, words)
    encoding = _encoding(config, frequencies, vectors)
    if config.kind == "text-parallel":
        return TextFlow(encoding, _parallel(config, frequencies, vectors), causal=False, lengths=lengths)
    if not config.anchored:
        flow: Transform = Sequential(_free_steps(config, config.layers))
    else:
        flow = _anchored(config, frequencies, vectors, words, lengths is not None)
    return TextFlow(encoding, flow, lengths=lengths)


def _language_model(
    config: TextModelConfig,
    frequencies: Tensor,
    lengths: Tensor | None,
    vectors: Tensor | None,
    words: WordCounts | None,
) -> LanguageModel:
    """The network of an anchored flow, without latents."""
    categories = len(frequencies)
    if config.network == "lexicon":
        network = _lexical(config, frequencies, words, lengths is not None)
        return LanguageModel(categories, None, network, nn.Identity(), lengths)
    embedding = start_vectors(vectors, categories, config.features)
    weights = CategoryWeights(config.hidden, frequencies)
    return LanguageModel(categories, embedding, _over_time(config, config.features), weights, lengths)


def _over_time(config: TextModelConfig, inputs: int) -> Causal:
    dropouts = (config.input_dropout, config.dropout)
    sizes = (config.hidden, config.blocks)
    if config.network in ("lstm", "lexicon"):
        return CausalLSTM(inputs, *sizes, *dropouts, config.weight_dropout, config.feed_forward)
    if config.network == "linear-recurrence":
        return LinearRecurrence(inputs, *sizes, *dropouts, config.reads)
    return CausalTransformer(inputs, *sizes, config.heads, *dropouts, config.reads)


def _anchored(
    config: TextModelConfig,
    frequencies: Tensor,
    vectors: Tensor | None,
    words: WordCounts | None,
    sentences: bool,
) -> Transform:
    """Couplings of which the first starts from the logistics of the symbols."""
    categories, channels, outputs = len(frequencies), config.channels, 2 + 3 * len(frequencies)
    lexical = config.network == "lexicon"
    if lexical:
        network: nn.Module = _lexical(config, frequencies, words, sentences)
        weights: nn.Module = nn.Identity()
        reader = SymbolReader(frequencies, None)
    else:
        reader = _reader(config, frequencies, vectors)
        network = _over_time(config, config.features)
        weights = CategoryWeights(config.hidden, frequencies)
    if categories > _TABLE_LIMIT or not config.changes:
        first: Transform = CategoryMixture(network, weights, reader)
    else:
        heads = (
            LikelihoodHeads(channels, categories, outputs, config.width)
            if lexical
            else ChannelHeads(channels, config.hidden, outputs, config.width)
        )
        first = AutoregressiveMixture(network, ChannelStep(heads, channels, categories, weights), reader)
    if config.layers == 1:
        return first
    return Sequential([first, Reversed(), *_free_steps(config, config.layers - 1)])


def _lexical(
    config: TextModelConfig, frequencies: Tensor, words: WordCounts | None, sentences: bool
) -> LexicalNetwork:
    """A network that reads and predicts words."""
    categories = len(frequencies)
    if categories > _TABLE_LIMIT:
        raise InputError(
            f"model.network is lexicon, which spells words of up to {_TABLE_LIMIT} characters, but there are "
            f"{categories} symbols; use model.network=lstm."
        )
    words = words or WordCounts.nothing(config.lexicon)
    return LexicalNetwork(
        Lexicon(words.spellings, categories),
        words.counts,
        words.unknown,
        frequencies,
        sentences,
        config.features,
        config.hidden,
        config.blocks,
        config.input_dropout,
        config.dropout,
        config.weight_dropout,
        config.feed_forward,
    )


def _free_steps(config: TextModelConfig, layers: int) -> list[Transform]:
    """Couplings whose logistics find their places by themselves."""
    steps: list[Transform] = []
    for layer in range(layers):
        heads = ChannelHeads(config.channels, config.hidden, 2 + 3 * config.mixtures, config.width)
        step = ChannelStep(heads, config.channels, config.mixtures)
        steps += [Reversed()] if layer else []
        steps.append(ActNorm(config.channels))
        steps.append(AutoregressiveMixture(_over_time(config, config.channels), step))
    return steps


def _parallel(config: TextModelConfig, frequencies: Tensor, vectors: Tensor | None) -> Transform:
    """Couplings of which each starts from the logistics of the symbols, and changes other places."""
    network = ParallelTransformer(
        config.features,
        config.rounds,
        config.run,
        config.hidden,
        config.blocks,
        config.heads,
        config.width,
        config.input_dropout,
        config.dropout,
        config.reads,
    )
    weights = CategoryWeights(config.width, frequencies)
    return CategoryRounds(network, weights, _reader(config, frequencies, vectors))


def _reader(config: TextModelConfig, frequencies: Tensor, vectors: Tensor | None) -> SymbolReader:
    return SymbolReader(frequencies, start_vectors(vectors, len(frequencies), config.features))


def _encoding(config: TextModelConfig, frequencies: torch.Tensor, vectors: Tensor | None) -> Encoding:
    categories, channels, hidden = len(frequencies), config.channels, config.encoder_hidden
    # A flow that starts from the symbols' places need not keep them close; misread symbols only slow it down.
    spread = config.spread if config.anchored else 1.0
    if config.kind == "text-latent":
        encoder = BidirectionalLSTM(config.features, 2 * channels, hidden)
        decoder = BidirectionalLSTM(channels, categories, hidden)
        return JointEncoding(
            categories, channels, encoder, decoder, config.features, config.reach, spread=spread
        )
    if categories > _TABLE_LIMIT:
        words = start_vectors(vectors, categories, config.features)
        return WordEncoding(frequencies, channels, words, hidden, config.decoder, spread)
    return MixtureEncoding(frequencies, channels, reach=config.reach, spread=spread)
