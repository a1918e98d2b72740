"""A network over texts that reads and predicts whole words, and spells them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.context import SequenceContext
from catnf.nets.channels import CategoryWeights, ChannelHeads
from catnf.nets.lexicon import (
    EMPTY,
    LONGEST,
    START,
    Followed,
    Lexicon,
    LogRangeSums,
    log_ranges,
    running_sums,
)
from catnf.nets.linear import lookup, select
from catnf.nets.network import Network
from catnf.nets.recurrent import CausalLSTM
from catnf.nets.sequence import Causal, Memory, between, drop, normalized
from catnf.repetition import Index, counts_on_device

_RECENT = 8
"""Symbols that unknown words are spelled by."""
_SPELLER = 256
"""Width of what spells them."""
_REMAINS = 64
"""Symbols left in a text, from which on words of all lengths fit alike."""
_SHARE = 0.25
"""What predictions of words are multiplied by, so that they move by little in a step of an optimizer."""
_MISFIT = -10.0
"""Log-weight of a word that does not fit into what is left of a text."""
_SYMBOLS_A_WORD = 4
"""In training, where shapes are fixed, words beyond one for so many symbols of a text are spelled."""
_AT_ONCE = 1 << 26
"""Probabilities of words that are held at once outside of training."""


class Recent(Causal):
    """What the last few elements tell, without any memory of those before."""

    def run(self, embedded: Tensor, ctx: SequenceContext) -> Tensor:
        return embedded

    def empty_state(self, ctx: SequenceContext) -> list[tuple[Tensor, Tensor]]:
        return []

    def run_one(self, embedded: Tensor, state: list[tuple[Tensor, Tensor]], index: Index) -> Tensor:
        return embedded


class LikelihoodHeads(ChannelHeads):
    """`ChannelHeads` of states that are log-probabilities, which are seen as probabilities."""

    def project(self, h: Tensor) -> tuple[Tensor, Tensor]:
        return super().project(h.exp())


@dataclass(frozen=True)
class LexicalMemory:
    """What is remembered between symbols; all of it is changed in place.

    Attributes:
        length: of the texts, `[batch]`.
        beginning: what is written of the word, `[batch]`.
        word: its number in the text, from 0 on, `[batch]`.
        spelled: log-probability of the beginning if the word is an unknown one, `[batch]`.
        letters: log-probabilities of the symbol before if the word was an unknown one, `[batch, categories]`.
        sums: running sums of the words' probabilities, the unknown one last, `[batch, words + 1]`.
        state: of the layers over words.
        speller: what the network of unknown words remembers.
    """

    length: Tensor
    beginning: Tensor
    word: Tensor
    spelled: Tensor
    letters: Tensor
    sums: Tensor
    state: list[tuple[Tensor, Tensor]]
    speller: Memory


class LexicalNetwork(Network):
    """An LSTM over words gives every word of a lexicon a probability when a word begins, and all others one
    together; those of symbols follow, since the words left after the first symbols are known. Other words are
    spelled by what a few symbols before each tell. So the sum over all texts is one, whatever is written.

    States are log-probabilities of the symbols.

    Args:
        lexicon: its words.
        counts: how often each occurs in training, `[words]`; where predictions start.
        unknown: the share of words that are not in the lexicon, likewise.
        frequencies: of the symbols, `[categories]`.
        sentences: whether texts end where their last word ends, so that longer ones do not fit.
        features: width of the vectors of words.
        hidden: width of the LSTM.
        layers: of the LSTM.
        input_dropout: share of words that are hidden from those after them in training.
        dropout: share of numbers dropped in training, as in `CausalLSTM`, and of what predicts words.
        weight_dropout: share of weights from one word to the next that are dropped in training.
        feed_forward: as in `CausalLSTM`.
    """

    def __init__(
        self,
        lexicon: Lexicon,
        counts: Tensor,
        unknown: float,
        frequencies: Tensor,
        sentences: bool,
        features: int,
        hidden: int,
        layers: int,
        input_dropout: float = 0.0,
        dropout: float = 0.0,
        weight_dropout: float = 0.0,
        feed_forward: int = 0,
    ) -> None:
        super().__init__()
        self.lexicon, self.input_dropout, self.dropout = lexicon, input_dropout, dropout
        self.over_words = CausalLSTM(
            features,
            hidden,
            layers,
            dropout=dropout,
            weight_dropout=weight_dropout,
            feed_forward=feed_forward,
        )
        self.vectors = nn.Parameter(0.1 * torch.randn(lexicon.words + 1, features))  # last, the unknown word
        self.gather = nn.Linear(hidden, features, bias=False)
        shares = torch.cat([(1.0 - unknown) * counts / counts.sum().clamp(min=1.0), torch.tensor([unknown])])
        self.bias = nn.Parameter(shares.clamp(min=1e-8).log())
        fits = torch.zeros(_REMAINS + 1, LONGEST + 1)
        if sentences:
            left, long = torch.arange(_REMAINS).unsqueeze(1), torch.arange(LONGEST + 1)
            # Nothing but a separator is left to a word that leaves one symbol.
            fits[:-1][(long > left) | (long == left - 1)] = _MISFIT
        self.fits = nn.Parameter(fits)
        self.speller = Recent(len(frequencies), _SPELLER, 0.0, 0.0, reads=_RECENT)
        self.letters = CategoryWeights(_SPELLER, frequencies)

    def forward(self, values: Tensor, ctx: SequenceContext) -> Tensor:
        """Symbols as one-hot `values: [batch, elements, categories]` to log-probabilities of each."""
        x = values.argmax(-1)
        with torch.no_grad():
            followed = self.lexicon.follow(x, ctx.real(values))
        letters = self._spell(self.speller(values, ctx))
        sums = select(letters, x).cumsum(1)
        sums = F.pad(sums[:, :-1], (1, 0))
        spelled = sums - sums.gather(1, followed.start)
        words = self._log_left(x, followed, ctx)
        return self._together(words, spelled, letters)

    def begin(self, ctx: SequenceContext, like: Tensor) -> LexicalMemory:
        """What is remembered before the first symbol of texts that `ctx` describes."""
        device = self.vectors.device
        length = (ctx.to_end(like)[:, 0] + 1).to(device).expand(ctx.batch).clone()
        number, real = torch.zeros_like(length), torch.zeros(ctx.batch, device=device)
        return LexicalMemory(
            length,
            beginning=torch.full_like(number, START),
            word=number - 1,
            spelled=real,
            letters=real.new_zeros(ctx.batch, self.lexicon.categories),
            sums=real.new_zeros(ctx.batch, self.lexicon.words + 1, dtype=torch.float64),
            state=self.over_words.empty_state(ctx),
            speller=self.speller.begin(ctx, like),
        )

    def advance(self, previous: Tensor, memory: LexicalMemory, index: Index) -> Tensor:
        """Log-probabilities `[batch, 1, categories]` of the symbol `index`, given the one before it.

        Args:
            previous: the symbol before, one-hot `[batch, 1, categories]`; zeros before the first.
            memory: of all symbols before that.
            index: from 0, one after another.
        """
        lexicon, x = self.lexicon, previous.squeeze(1).argmax(-1)
        first = memory.word < 0
        after = lexicon.longer[memory.beginning, x]
        ended = first | lexicon.separators[x]
        memory.word.add_(ended.long())
        memory.beginning.copy_(torch.where(ended, START, after))
        memory.spelled.copy_(torch.where(ended, 0.0, memory.spelled + select(memory.letters, x)))
        # The next word, of which nothing is taken over where the last one has not ended.
        vector = self.vectors[lexicon.whole[after]].masked_fill(first.unsqueeze(1), 0.0).unsqueeze(1)
        where = between(memory.word, memory.length - 1 - index)
        state = [(h.clone(), c.clone()) for h, c in memory.state]
        entered = self.over_words.embed(vector, where.unsqueeze(1).to(vector.dtype))
        h = self.over_words.run_one(entered, state, index)
        logits = self._predict(h, (memory.length - index).unsqueeze(1), None).squeeze(1)
        sums = running_sums(torch.softmax(logits.float(), dim=-1))
        memory.sums.copy_(torch.where(ended.unsqueeze(1), sums, memory.sums))
        for old, new in zip(memory.state, state, strict=True):
            for kept, value in zip(old, new, strict=True):
                kept.copy_(torch.where(ended.unsqueeze(1), value, kept))
        letters = self._spell(self.speller.advance(previous, memory.speller, index))
        memory.letters.copy_(letters.squeeze(1))
        low, high = self._ranges(memory.beginning)
        words = log_ranges(memory.sums, torch.arange(len(x), device=x.device), low, high)
        return self._together(words.unsqueeze(1), memory.spelled.unsqueeze(1), letters)

    def _spell(self, states: Tensor) -> Tensor:
        """Log-probabilities of the symbols of unknown words, `[batch, elements, categories]`."""
        return torch.log_softmax(self.letters(states).float(), dim=-1)

    def _together(self, words: Tensor, spelled: Tensor, letters: Tensor) -> Tensor:
        """Log-probabilities of symbols `[batch, elements, categories]`.

        Args:
            words: log-probabilities of the known words that each symbol leaves and, last, of unknown ones,
                `[batch, elements, categories + 1]`.
            spelled: of what is written of the word if it is an unknown one, `[batch, elements]`.
            letters: of every symbol after that, `[batch, elements, categories]`.
        """
        other = (words[..., -1] + spelled).unsqueeze(-1) + letters
        return torch.log_softmax(torch.logaddexp(words[..., :-1], other), dim=-1)

    def _ranges(self, beginning: Tensor) -> tuple[Tensor, Tensor]:
        """Of words that begin so, `[...]`: the first that each symbol leaves, `[..., categories + 1]`, and
        the one behind the last. The range that comes last is that of the unknown word.
        """
        longer, unknown = self.lexicon.longer[beginning], self.lexicon.words
        low, high = self.lexicon.low[longer], self.lexicon.high[longer]
        return F.pad(low, (0, 1), value=unknown), F.pad(high, (0, 1), value=unknown + 1)

    def _predict(self, h: Tensor, left: Tensor, generator: torch.Generator | None) -> Tensor:
        """Log-weights of all words and the unknown one, `[..., words + 1]`, given states `[..., hidden]` and
        symbols `left: [...]`.
        """
        h = drop(normalized(self.gather(h)), self.dropout, generator)
        fits = lookup(self.fits, left.clamp(0, _REMAINS))
        # One product: what the vectors say, how a word's length fits, and how frequent it is.
        rows = torch.cat([_SHARE * h, fits, torch.ones_like(fits[..., :1])], dim=-1)
        lengths = F.pad(F.one_hot(self.lexicon.lengths, LONGEST + 1), (0, 0, 0, 1)).to(h.dtype)
        columns = torch.cat([self.vectors, lengths, self.bias.unsqueeze(1)], dim=-1)
        extra = -rows.shape[-1] % 8
        return F.pad(rows, (0, extra)) @ F.pad(columns, (0, extra)).T

    def _log_left(self, x: Tensor, followed: Followed, ctx: SequenceContext) -> Tensor:
        """What `_together` takes as words, `[batch, elements, categories + 1]`."""
        training = ctx.generator is not None
        # A device that works by itself is told shapes beforehand; others hold no more words than needed.
        fixed = counts_on_device(x.device) and (training or torch.cuda.is_current_stream_capturing())
        count = 1 + (ctx.elements // _SYMBOLS_A_WORD if fixed else int(followed.word.max()))
        with torch.no_grad():
            spare = torch.where(followed.ends, followed.word, count).clamp(max=count)
            after = self.lexicon.longer[followed.beginning, x]
            word = x.new_full((ctx.batch, count + 1), self.lexicon.words)
            word = word.scatter(1, spare, self.lexicon.whole[after])[:, :count]
            to_end = ctx.to_end(x).expand(ctx.batch, -1)
            left = x.new_zeros(ctx.batch, count + 2).scatter(1, spare + 1, to_end)[:, :count]
            left[:, 0] = to_end[:, 0] + 1
            known = followed.word < count
            if training and self.input_dropout > 0.0:
                hidden = torch.rand(word.shape, device=x.device, generator=ctx.generator) < self.input_dropout
                word = torch.where(hidden, self.lexicon.words, word)
            low, high = self._ranges(followed.beginning)
        last = torch.where(ctx.real(x), followed.word, 0).max(1, keepdim=True).values
        at = followed.word.minimum(last).clamp(max=count - 1)
        size = max(1, _AT_ONCE // (count * self.lexicon.words))
        size = ctx.batch if torch.is_grad_enabled() else size
        given = [torch.split(values, size) for values in (word, left, at, low, high)]
        pieces = [self._some_left(*some, ctx=ctx, packed=not fixed) for some in zip(*given, strict=True)]
        out = torch.cat(pieces)
        unknown = F.pad(out.new_full((self.lexicon.categories,), EMPTY), (0, 1))
        return torch.where(known.unsqueeze(-1), out, unknown)

    def _some_left(
        self,
        word: Tensor,
        left: Tensor,
        at: Tensor,
        low: Tensor,
        high: Tensor,
        *,
        ctx: SequenceContext,
        packed: bool,
    ) -> Tensor:
        """`_log_left` of some texts.

        Args:
            word: the words of the texts, `[batch, count]`.
            left: symbols that are left when each begins, `[batch, count]`.
            at: the word that each symbol is of, `[batch, elements]`.
            low: the first words of `_ranges`, `[batch, elements, categories + 1]`.
            high: those behind the last ones.
            ctx: of the texts, or of more of them.
            packed: whether nothing is predicted behind the last words of short texts.
        """
        batch, count = word.shape
        vectors = F.embedding(word, self.vectors)
        places = torch.arange(count, device=word.device).expand_as(word)
        where = between(places, left - 1)
        words = SequenceContext(batch, count, generator=ctx.generator)
        h = self.over_words.states(vectors, where, words)
        row = (torch.arange(batch, device=word.device).unsqueeze(1) * count + at).flatten()
        h, left = h.flatten(0, 1), left.flatten()
        if packed:
            used = places <= at.max(1, keepdim=True).values
            h, left = h[used.flatten()], left[used.flatten()]
            row = (used.flatten().cumsum(0) - 1)[row]
        logits = self._predict(h, left, ctx.generator)
        out: Tensor = LogRangeSums.apply(  # type: ignore[no-untyped-call]
            logits, row, low.flatten(0, 1), high.flatten(0, 1)
        )
        return out.view(*at.shape, -1)
