"""The command line on words of a text of one's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from catnf import sample_texts
from catnf.context import SequenceContext
from catnf.encodings.words import start_vectors
from catnf.errors import InputError
from catnf.fitted import load

Run = Callable[..., object]

SETTINGS = ("task.window=16", "model.hidden=16", "model.features=4", "model.width=8", "training.steps=4")
MORE = ("training.batch=4", "training.warmup=2", "training.validate_every=0", "model.encoder_hidden=8")


def train(run: Run, story: Path, *more: str) -> object:
    settings = [part for value in (*SETTINGS, *MORE) for part in ("--set", value)]
    return run("train", "text/text8-words/mixture", "--text", story, "-o", "runs", *settings, *more)


@pytest.fixture
def story(tmp_path: Path) -> Path:
    path = tmp_path / "story.txt"
    path.write_text("The cat sat on a mat and the dog ran away\n" * 40, encoding="utf-8")
    return path


def test_a_model_of_words_keeps_them(
    run_catnf: Run, story: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes without the prepared text, and does not take another one for its own."""
    monkeypatch.setenv("CATNF_DATA", str(tmp_path))  # where there are no vectors
    outcome = train(run_catnf, story, "--size", "8")
    assert outcome.code == 0, outcome.err
    assert "taken as '<unk>'" in outcome.err
    assert "8 different symbols" in outcome.err
    assert "Words start at random vectors" in outcome.err
    prepared = story.with_name("story.txt-words.npz")
    sample = ("sample", "runs", "-n", 2, "--length", 12, "--seed", 1, "--json")
    before = json.loads(run_catnf(*sample).out)["samples"]
    prepared.unlink()
    assert json.loads(run_catnf(*sample).out)["samples"] == before
    story.write_text("one two three four five six seven eight nine ten\n" * 40, encoding="utf-8")
    assert run_catnf("data", "text", story, "--level", "words", "--size", 8).code == 0
    assert json.loads(run_catnf(*sample).out)["samples"] == before
    outcome = run_catnf("evaluate", "runs", "--generated", 0)
    assert outcome.code == 2
    assert "has other words than task.alphabet, so it was made of another text" in outcome.err
    outcome = train(run_catnf, story, "--size", "8")
    assert outcome.code == 2
    assert "holds a run with task.alphabet=" in outcome.err


def test_a_lexicon_is_for_characters(run_catnf: Run, story: Path) -> None:
    outcome = train(run_catnf, story, "--set", "model.network=lexicon")
    assert "model.network is lexicon, which is for characters; use model.network=lstm." in outcome.err


def test_long_settings_are_cut_in_messages(run_catnf: Run, story: Path) -> None:
    train(run_catnf, story)
    story.write_text("".join(f"word{n} " for n in range(900)), encoding="utf-8")
    outcome = train(run_catnf, story)
    assert outcome.code == 2
    assert len(outcome.err.split("holds a run with")[1]) < 400


def test_a_single_known_vector_is_no_reason_for_nan() -> None:
    vectors = torch.zeros(5, 3)
    vectors[2] = 1.0
    assert start_vectors(vectors, 5, 4).isfinite().all()
    assert start_vectors(torch.zeros(5, 3), 5, 4).isfinite().all()


def test_sentences_are_scored_with_their_lengths() -> None:
    """Samples are padded, and without their lengths the padding would count as blanks."""
    fitted = load("text/ptb/lexicon-small")
    ctx = fitted.sample_context(3, seed=0)
    sentences = fitted.sample(3, seed=0, ctx=ctx)
    with pytest.raises(InputError, match="Symbols do not tell where sentences end"):
        fitted.log_prob(sentences)
    lengths = ctx.counts(torch.zeros(())).long()
    assert torch.allclose(
        fitted.log_prob(sentences, seed=0, ctx=ctx),
        fitted.log_prob(sentences, seed=0, ctx=SequenceContext.of(sentences, lengths)),
    )


@pytest.mark.parametrize("wrong", [{"length": 10.5}, {"prompt": b"the"}, {"count": 1.5}])
def test_arguments_of_the_wrong_kind(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"give a (whole number|string)"):
        sample_texts(**({"count": 1} | wrong))  # type: ignore[arg-type]
