"""Words and their spellings, and a network that predicts whole words."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.context import SequenceContext
from catnf.errors import InputError
from catnf.nets import LexicalNetwork, Lexicon
from catnf.nets.lexicon import EMPTY, LONGEST, LogRangeSums
from catnf.repetition import Index
from catnf.tasks.text.lexicon import WordCounts, count_words, separators_of
from catnf.tasks.text.vocabulary import Vocabulary

Seeded = Callable[[int], torch.Generator]
Perturb = Callable[[nn.Module, float], nn.Module]

CATEGORIES = 4
TEXT = "ab a abc b ab ca a abc b ca a c "
"""Symbol 0 is the blank, 1 is a, and so on."""


def codes(text: str) -> Tensor:
    return torch.tensor([" abc".index(symbol) for symbol in text])


def counted(size: int = 8) -> WordCounts:
    return count_words(codes(TEXT).numpy().astype(np.uint8), [0], size)


@pytest.fixture
def lexicon() -> Lexicon:
    return Lexicon(counted().spellings, CATEGORIES)


@pytest.fixture
def network(lexicon: Lexicon, perturb: Perturb) -> LexicalNetwork:
    frequencies = torch.tensor([0.3, 0.3, 0.2, 0.2])
    made = LexicalNetwork(lexicon, counted().counts, 0.2, frequencies, True, 6, 8, 2, feed_forward=2)
    return perturb(made, 0.3).eval()  # type: ignore[return-value]


def texts(batch: int, elements: int, seed: int = 0) -> Tensor:
    return torch.randint(CATEGORIES, (batch, elements), generator=torch.Generator().manual_seed(seed))


def one_hot(x: Tensor) -> Tensor:
    return F.one_hot(x, CATEGORIES).float()


def spelled(words: WordCounts) -> list[str]:
    return ["".join(" abc"[code] for code in row if code >= 0) for row in words.spellings.tolist()]


def test_words_are_counted_and_sorted() -> None:
    words = counted()
    assert spelled(words) == ["a ", "ab ", "abc ", "b ", "ca ", "", "", ""]
    assert words.counts.tolist() == [3.0, 2.0, 2.0, 2.0, 2.0, 0.0, 0.0, 0.0]
    assert words.unknown == pytest.approx(2 / 13), "one word occurs once, and one more was never seen"
    assert spelled(counted(2)) == ["a ", "ab "], "the most frequent ones"
    long = codes(2 * ("a" * LONGEST + " b "))
    assert spelled(count_words(long.numpy().astype(np.uint8), [0], 3)) == ["b ", "", ""]


def test_separators() -> None:
    assert separators_of(Vocabulary("characters", ("a", " ", "\n"), 1)) == [1, 2]
    with pytest.raises(InputError, match="no blanks"):
        separators_of(Vocabulary("characters", ("a", "b"), 0))


def test_what_words_are_left(lexicon: Lexicon) -> None:
    """Against the strings themselves."""
    words = spelled(counted())
    x = texts(16, 12)
    real = torch.arange(12) < torch.tensor([12, 5] * 8).unsqueeze(1)
    followed = lexicon.follow(x, real)
    for row, text in enumerate(x.tolist()):
        symbols = "".join(" abc"[code] for code in text)
        for place in range(int(real[row].sum())):
            begun = symbols[:place].rpartition(" ")[2]
            left = [number for number, word in enumerate(words) if word and word.startswith(begun)]
            beginning = int(followed.beginning[row, place])
            low, high = int(lexicon.low[beginning]), int(lexicon.high[beginning])
            assert list(range(low, high)) == left, begun
            assert int(followed.word[row, place]) == symbols[:place].count(" ")
            assert int(followed.start[row, place]) == place - len(begun)
            if followed.ends[row, place]:
                after = int(lexicon.whole[lexicon.longer[beginning, 0]])
                assert after == (words.index(begun + " ") if begun + " " in words else lexicon.words)


def test_a_lexicon_comes_back_from_its_spellings(lexicon: Lexicon) -> None:
    assert list(lexicon.state_dict()) == ["spellings"]
    other = Lexicon(WordCounts.nothing(8).spellings, CATEGORIES)
    other.load_state_dict(lexicon.state_dict())
    for name, buffer in lexicon.named_buffers():
        assert torch.equal(buffer, dict(other.named_buffers())[name]), name


def test_sums_over_ranges_and_their_gradient(seeded: Seeded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catnf.nets.lexicon._ROWS_AT_ONCE", 2)
    logits = torch.randn(5, 7, generator=seeded(0), dtype=torch.float64).requires_grad_()
    row = torch.tensor([0, 1, 1, 4])
    low, high = torch.tensor([[0, 3], [1, 1], [6, 0], [2, 4]]), torch.tensor([[7, 4], [6, 1], [7, 1], [5, 4]])
    out = LogRangeSums.apply(logits, row, low, high)
    p = logits.softmax(-1)[row]
    inside = (torch.arange(7) >= low.unsqueeze(-1)) & (torch.arange(7) < high.unsqueeze(-1))
    masses = torch.where(inside, p.unsqueeze(1), 0.0).sum(-1)
    expected = torch.where(masses > 0, masses.clamp(min=1e-30).log(), EMPTY)
    torch.testing.assert_close(out, expected.float(), atol=1e-5, rtol=1e-5)
    weights = torch.randn(4, 2, generator=seeded(1))
    (gradient,) = torch.autograd.grad((out * weights).sum(), logits)
    (by_hand,) = torch.autograd.grad((expected * weights).sum(), logits)
    torch.testing.assert_close(gradient, by_hand, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_probabilities_of_continuations_sum_to_one(network: LexicalNetwork) -> None:
    x = torch.tensor(list(itertools.product(range(CATEGORIES), repeat=3)))
    states = network(one_hot(x), SequenceContext.of(x))
    torch.testing.assert_close(states.exp().sum(-1), torch.ones(64, 3))
    total = states.gather(-1, x.unsqueeze(-1)).sum((1, 2)).exp().sum()
    assert float(total) == pytest.approx(1.0, abs=1e-5)


@torch.no_grad()
def test_symbols_of_a_word_multiply_to_its_probability(network: LexicalNetwork) -> None:
    """That of the lexicon, and that of spelling it symbol by symbol."""
    x = codes("abc b ").unsqueeze(0)
    ctx = SequenceContext.of(x)
    written = network(one_hot(x), ctx).gather(-1, x.unsqueeze(-1)).squeeze(-1)[0]
    memory = network.begin(ctx, one_hot(x))
    network.advance(torch.zeros(1, 1, CATEGORIES), memory, 0)
    sums = memory.sums[0]
    word, unknown = float(sums[2] - sums[1]), float(sums[-1] - sums[-2])  # of abc, the third, and of others
    letters = network._spell(network.speller(one_hot(x), ctx)).gather(-1, x.unsqueeze(-1)).squeeze(-1)[0]
    expected = word + unknown * float(letters[:4].sum().exp())
    expected /= float(sums[4]) + unknown  # but for the rows that hold no word
    assert float(written[:4].sum().exp()) == pytest.approx(expected, rel=1e-4)


def test_states_depend_on_earlier_symbols_alone(network: LexicalNetwork) -> None:
    x = codes("ab ca b c").unsqueeze(0)
    ctx = SequenceContext.of(x)
    changed = x.clone()
    changed[0, 4] = 2
    apart = (network(one_hot(x), ctx) - network(one_hot(changed), ctx)).abs().amax((0, 2))
    assert (apart[:5] == 0).all(), "a symbol does not see itself"
    assert (apart[5:] > 0).all()


@pytest.mark.parametrize("counting", [int, torch.tensor])
@pytest.mark.parametrize("lengths", [None, [9, 4, 1, 7]])
@torch.no_grad()
def test_one_after_another_equals_all_at_once(
    network: LexicalNetwork, lengths: list[int] | None, counting: Callable[[int], Index]
) -> None:
    x = texts(4, 9)
    ctx = SequenceContext.of(x, None if lengths is None else torch.tensor(lengths))
    whole = network(one_hot(x), ctx)
    memory, now, states = network.begin(ctx, one_hot(x)), torch.zeros(4, 1, CATEGORIES), []
    for index in range(9):
        states.append(network.advance(now, memory, counting(index)))
        now = one_hot(x)[:, index : index + 1]
    real = ctx.real(x).unsqueeze(-1)
    one = torch.cat(states, dim=1)
    torch.testing.assert_close(one * real, whole * real, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_many_texts_are_taken_in_pieces(network: LexicalNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    x = texts(7, 9)
    ctx = SequenceContext.of(x, torch.tensor([9, 4, 1, 7, 2, 9, 3]))
    whole = network(one_hot(x), ctx)
    monkeypatch.setattr("catnf.nets.lexical._AT_ONCE", 100)
    torch.testing.assert_close(network(one_hot(x), ctx), whole)


def test_fixed_shapes_change_nothing(network: LexicalNetwork, device_counts: Callable[[], None]) -> None:
    """On a GPU, training predicts words behind the last ones too, and ignores them."""
    x = codes("abc abc ca  ab  ").view(2, 8)
    ctx = SequenceContext.of(x, torch.tensor([8, 5]))
    packed = network(one_hot(x), ctx)
    device_counts()
    training = SequenceContext(2, 8, ctx.mask, generator=torch.Generator().manual_seed(0))
    real = ctx.real(x).unsqueeze(-1)
    fixed = network(one_hot(x), training)
    # Of eight symbols three words are told apart; the second text has its third word at its end.
    torch.testing.assert_close(fixed * real, packed * real, atol=1e-5, rtol=1e-4)
    weights = torch.randn(fixed.shape, generator=torch.Generator().manual_seed(1)) * real
    here = torch.autograd.grad((packed * weights).sum(), network.vectors)[0]
    there = torch.autograd.grad((fixed * weights).sum(), network.vectors)[0]
    torch.testing.assert_close(there, here, atol=1e-4, rtol=1e-3)


def test_hidden_words_are_read_as_the_unknown_one(network: LexicalNetwork, seeded: Seeded) -> None:
    def words(text: str, generator: torch.Generator | None) -> Tensor:
        """The words that may begin at the last symbol."""
        x = codes(text).unsqueeze(0)
        ctx = SequenceContext(1, len(text), generator=generator)
        return network._log_left(x, network.lexicon.follow(x, ctx.real(one_hot(x))), ctx)[:, -1]

    seen = words("ab abc ca b", None)
    network.input_dropout = 0.999
    hidden = words("ab abc ca b", seeded(0))
    assert not torch.equal(hidden, seen)
    torch.testing.assert_close(hidden, words("bb bbb bb b", None))


def test_how_likely_unknown_words_are_is_learned(network: LexicalNetwork) -> None:
    """A word that is spelled moves it as well as the letters."""
    x = codes("bbb ").unsqueeze(0)
    network(one_hot(x), SequenceContext.of(x)).gather(-1, x.unsqueeze(-1)).sum().backward()
    assert network.bias.grad is not None
    assert float(network.bias.grad[-1]) > 0.0
    assert float(network.bias.grad[:-1].sum()) < 0.0
