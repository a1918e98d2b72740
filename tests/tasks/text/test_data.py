"""Texts as a task: batches, windows, sentences, metrics."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from catnf.context import SequenceContext
from catnf.errors import InputError, StorageError
from catnf.tasks.task import spread
from catnf.tasks.text import Text, TextTaskConfig
from catnf.tasks.text.archive import TextData, TextPart
from catnf.tasks.text.preparation import prepare
from catnf.tasks.text.tables import padded
from catnf.tasks.text.vocabulary import PTB

Seeded = Callable[[int], torch.Generator]
SENTENCES = ["the end ", "it is <unk> ", "a ", "so it goes ", "N N "]


@pytest.fixture
def windows(prepared: Path) -> Text:
    return Text(str(prepared), window=32)


@pytest.fixture
def sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Text:
    """A data folder whose Penn Treebank has five sentences."""
    codes = [PTB.encode(sentence).codes for sentence in SENTENCES]
    lengths = np.array([len(code) for code in codes], dtype=np.int16)
    part = TextPart(np.concatenate(codes), lengths)
    splits = dict.fromkeys(("train", "validation", "test"), part)
    TextData(PTB, splits, part.counts(51)).save(tmp_path / "text" / "ptb.npz")
    monkeypatch.setenv("CATNF_DATA", str(tmp_path))
    return Text("ptb", window=11)


def test_windows_of_running_text(windows: Text, story: str, seeded: Seeded) -> None:
    x, ctx = windows.batch(20, seeded(1))
    assert x.shape == (20, 32)
    assert x.dtype == torch.int64
    assert ctx.mask is None
    assert all(text in story for text in windows.texts(x, ctx))
    assert torch.equal(x, windows.batch(20, seeded(1))[0])
    assert len({tuple(row) for row in x.tolist()}) > 10


def test_every_symbol_is_evaluated_once(windows: Text, story: str) -> None:
    x, ctx = windows.evaluation("test"), windows.evaluation_context("test")
    text = "".join(windows.texts(x, ctx))
    assert story.endswith(text)
    assert len(text) == len(story) - int(len(story) * 0.95)
    assert int(ctx.counts(torch.zeros(1)).sum()) == len(text)
    assert windows.evaluation_context("test", 2).mask is None
    assert torch.equal(windows.evaluation("test", 2), x[[0, len(x) // 2]])
    assert int(ctx.counts(torch.zeros(1))[-1]) < windows.window, "this text has a short last window"


@pytest.mark.parametrize("name", ["windows", "sentences"])
def test_a_limited_evaluation_is_spread_over_the_split(name: str, request: pytest.FixtureRequest) -> None:
    task: Text = request.getfixturevalue(name)
    x, ctx = task.evaluation("test"), task.evaluation_context("test")
    whole = task.texts(x, ctx)
    for limit in range(1, len(x) + 3):
        few, given = task.evaluation("test", limit), task.evaluation_context("test", limit)
        places = spread(len(x), limit)
        assert torch.equal(few, x[places])
        assert task.texts(few, given) == [whole[place] for place in places.tolist()]
        assert torch.equal(given.counts(torch.zeros(1)), ctx.counts(torch.zeros(1))[places])


def test_frequencies(windows: Text) -> None:
    shares = windows.frequencies()
    assert shares.shape == (windows.categories,)
    assert float(shares.sum()) == pytest.approx(1.0)
    assert (shares > 0).all()


def test_sentences_of_given_lengths(sentences: Text, seeded: Seeded) -> None:
    x, ctx = sentences.batch(50, seeded(1))
    assert x.shape == (50, 11)
    fitting = [sentence for sentence in SENTENCES if len(PTB.encode(sentence).codes) <= 11]
    assert set(sentences.texts(x, ctx)) == set(fitting)
    assert len(sentences.evaluation("validation")) == len(fitting) == 5
    assert Text("ptb", window=8).evaluation("test").shape == (4, 8), "one does not fit"


def test_groups_of_sentences_leave_less_padding(sentences: Text, seeded: Seeded) -> None:
    grouped = Text("ptb", window=sentences.window, groups=(4, 8))
    lengths = {sentence: len(PTB.encode(sentence).codes) for sentence in SENTENCES}
    shares = grouped.buckets()
    for bucket, (shortest, longest) in enumerate(((1, 4), (5, 8), (9, 11))):
        own = {sentence: length for sentence, length in lengths.items() if shortest <= length <= longest}
        (part,) = grouped.parts(400, seeded(0), bucket)
        assert part.x.shape == (400 * 11 // longest, longest), "as many symbols as 400 windows"
        assert set(grouped.texts(part.x, part.ctx)) == set(own)
        assert shares[bucket] == pytest.approx(sum(own.values()) / sum(lengths.values()))
    assert sum(shares) == pytest.approx(1.0)
    assert len(Text("ptb", window=sentences.window, groups=(1, 8)).buckets()) == 2, "one would be empty"
    assert sentences.buckets() == [1.0]
    with pytest.raises(InputError, match="only ptb has sentences"):
        TextTaskConfig(source="text8", groups=(4,))
    with pytest.raises(InputError, match="give rising lengths"):
        TextTaskConfig(source="ptb", groups=(8, 4))


def test_lengths_are_priced_apart(sentences: Text) -> None:
    counts = sentences.length_counts()
    assert counts is not None
    lengths = [len(PTB.encode(sentence).codes) for sentence in SENTENCES]
    assert counts[0] == 0
    assert lengths == [8, 8, 2, 11, 4]
    assert [int(counts[length]) for length in lengths] == [3, 3, 2, 2, 2]
    expected = (2 * math.log2(16 / 3) + 3 * math.log2(16 / 2)) / sum(lengths)
    assert sentences.extra_bits("test")["bits_length"] == pytest.approx(expected)
    few = (math.log2(16 / 3) + math.log2(16 / 2)) / (8 + 2)
    assert sentences.extra_bits("test", 2)["bits_length"] == pytest.approx(few), "the first and the third"
    assert Text("text8").extra_bits("test") == {}


def test_padding_of_sentences() -> None:
    part = TextPart(np.array([5, 6, 7, 8, 9], dtype=np.uint8), np.array([2, 3], dtype=np.int16))
    codes, lengths = padded(part, 4)
    assert codes.tolist() == [[5, 6, 0, 0], [7, 8, 9, 0]]
    assert lengths.tolist() == [2, 3]
    assert padded(part, 2)[0].tolist() == [[5, 6]]


def test_known_words(windows: Text) -> None:
    coded = [windows.vocabulary.encode(text).codes for text in ("xx the cat xx", "xx mat zzz xx")]
    x = torch.from_numpy(np.stack(coded).astype(np.int64))
    assert windows.sample_metrics(x) == {"known_words": 0.75}


def test_without_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What a trained model needs: sizes, not texts."""
    monkeypatch.setenv("CATNF_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    task = Text("text8")
    assert task.categories == 27
    torch.testing.assert_close(task.frequencies(), torch.full((27,), 1 / 27))
    assert task.sample_metrics(torch.zeros(1, 5, dtype=torch.long)) == {}
    assert task.texts(torch.tensor([[20, 8, 5]]), SequenceContext(1, 3)) == ["the"]
    assert Text("gone.npz", alphabet="abc").categories == 4
    words = Text("wikitext2", "words")
    assert words.categories == 10_000
    assert words.vectors() is None
    with pytest.raises(StorageError, match="catnf data text text8"):
        task.batch(1, torch.Generator())


def test_data_of_another_text_is_refused(prepared: Path, story_file: Path) -> None:
    with pytest.raises(StorageError, match=r"other characters than task\.alphabet"):
        Text(str(prepared), window=32, alphabet="abc").batch(1, torch.Generator())
    words = story_file.with_name("words.npz")
    prepare(str(story_file), words, "words", 8)
    with pytest.raises(StorageError, match=r"has 8 words, but task\.words is 10; set task\.words=8"):
        Text(str(words), "words", window=32, words=10).batch(1, torch.Generator())


def test_bad_input(windows: Text, prepared: Path) -> None:
    with pytest.raises(InputError, match="Symbols go from 0 to 99; give those from 0 to"):
        windows.check(torch.tensor([[0, 99]]))
    with pytest.raises(InputError, match="Split 'train' is unknown"):
        windows.evaluation("train")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="The limit is 0"):
        windows.evaluation("test", 0)
    with pytest.raises(InputError, match=r"fewer than task\.window=9999"):
        Text(str(prepared), window=9999).batch(1, torch.Generator())
    with pytest.raises(InputError, match=r"task\.window is 1"):
        TextTaskConfig(window=1)
    with pytest.raises(InputError, match=r"task\.words is 1"):
        TextTaskConfig(words=1)
    with pytest.raises(InputError, match="text8-words is learned by words, not by characters"):
        TextTaskConfig(source="text8-words")
