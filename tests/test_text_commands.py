"""The command line on texts: prepare, train, evaluate, write."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from catnf import sample_texts, score_texts
from catnf.errors import InputError
from catnf.evaluation import EvaluationOptions, evaluate_likelihood
from catnf.experiments import load_experiment
from catnf.fitted import load
from catnf.storage import load_tensors
from catnf.studio.app import Studio
from catnf.text import DEFAULT_MODEL
from catnf.training.options import RunOptions
from catnf.training.run import train as train_run

SMALL = [
    *("task.window=16", "model.hidden=16", "model.blocks=1", "model.width=8", "model.encoder_hidden=8"),
    *("model.features=4", "training.steps=6", "training.batch=4", "training.warmup=2"),
]
KINDS = {
    "mixture": ["model.mixtures=5"],
    "latent": ["model.mixtures=5"],
    "lstm": [],
    "transformer": ["model.heads=2"],
    "parallel": ["model.heads=2", "model.rounds=2", "model.run=3", "model.reads=3"],
}
Run = Callable[..., object]


@pytest.fixture
def story(tmp_path: Path) -> Path:
    path = tmp_path / "story.txt"
    path.write_text("the cat sat on the mat; the dog ran away.\n" * 60, encoding="utf-8")
    return path


def options(kind: str, *more: str) -> list[str]:
    return [part for value in (*SMALL, *KINDS[kind], *more) for part in ("--set", value)]


def train(run: Run, story: Path, kind: str, folder: str, *more: str) -> object:
    name = f"text/text8/{kind}"
    arguments = ("train", name, "--text", story, "-o", folder, "--device", "cpu", "--quiet")
    return run(*arguments, *options(kind, *more))


@pytest.mark.parametrize("kind", KINDS)
def test_from_a_file_to_texts(kind: str, run_catnf: Run, story: Path) -> None:
    outcome = train(run_catnf, story, kind, "runs")
    assert outcome.code == 0, outcome.err
    story.with_name("story.txt-characters.npz").unlink()  # a trained model of characters writes without it
    at_once = kind == "parallel"
    prompt = [] if at_once else ["--prompt", "the c"]
    drawn = run_catnf("sample", "runs", "-n", 3, *prompt, "--length", 12, "--seed", 1, "--json")
    assert drawn.code == 0, drawn.err
    texts = json.loads(drawn.out)["samples"]
    assert [len(text) for text in texts] == [12] * 3
    assert all(text.startswith("the c") for text in texts) or at_once
    again = run_catnf("sample", "runs", "-n", 3, *prompt, "--length", 12, "--seed", 1, "--json")
    assert json.loads(again.out)["samples"] == texts


@pytest.mark.parametrize("kind", ["mixture", "lstm"])
def test_evaluation(kind: str, run_catnf: Run, story: Path) -> None:
    train(run_catnf, story, kind, "runs")
    arguments = ("evaluate", "runs", "--examples", 5, "--samples", 3, "--generated", 4, "--split", "test")
    told = json.loads(run_catnf(*arguments, "--json").out)
    metrics = told["metrics"]
    assert {"bits_per_char", "bits_per_char_by_example", "bits_bound", "bits_reconstruction"} <= set(metrics)
    assert {"reconstruction", "known_words"} <= set(metrics)
    low, high = told["intervals"]["bits_per_char"]
    assert low < metrics["bits_per_char"] < high
    assert metrics["bits_per_char"] <= metrics["bits_bound"] + 1e-6
    assert (metrics["bits_reconstruction"] == 0) == (kind == "lstm")
    assert "protocols" not in told or "bits_per_char" not in told["protocols"]
    told = json.loads(run_catnf(*arguments, "--json", "--precision", "bfloat16").out)
    assert told["protocols"]["bits_per_char"] == "with networks in bfloat16"
    low = told["metrics"]
    assert low["reconstruction"] == metrics["reconstruction"]
    assert low["bits_per_char"] == pytest.approx(metrics["bits_per_char"], abs=0.02)
    assert low["bits_per_char"] != metrics["bits_per_char"]


def test_bits_are_those_of_all_characters(run_catnf: Run, story: Path) -> None:
    """The last window is shorter than the others, and its characters count no more than theirs."""
    train(run_catnf, story, "lstm", "runs")
    fitted = load("runs")
    found = evaluate_likelihood(fitted, EvaluationOptions("test", samples=1)).metrics
    x, ctx = fitted.task.evaluation("test"), fitted.task.evaluation_context("test")
    nats, counts = fitted.log_prob(x, ctx=ctx), ctx.counts(torch.zeros(1))
    assert counts[-1] < counts[0]
    assert found["bits_per_char"] == pytest.approx(float(-nats.sum() / counts.sum()) / math.log(2), abs=1e-5)
    assert found["bits_per_char_by_example"] == pytest.approx(
        float(-(nats / counts).mean()) / math.log(2), abs=1e-5
    )


@pytest.mark.parametrize("kind", ["mixture", "transformer"])
def test_stopped_and_resumed_equals_uninterrupted(
    kind: str, run_catnf: Run, story: Path, tmp_path: Path
) -> None:
    """Dropout included, which draws from the run's own generator."""
    assert run_catnf("data", "text", story, "-o", "story.npz").code == 0
    changes = (*SMALL, *KINDS[kind], "model.dropout=0.3", "model.input_dropout=0.2")
    experiment = load_experiment(f"text/text8/{kind}", (*changes, f"task.source={tmp_path / 'story.npz'}"))
    train_run(experiment, RunOptions(tmp_path / "whole", device="cpu", quiet=True))
    piece = RunOptions(tmp_path / "pieces", device="cpu", quiet=True, max_time=0.0, log_every=2)
    stops = [train_run(experiment, piece).step for _ in range(6)]
    assert stops[-1] == 6
    assert len(set(stops)) > 1, "it was really stopped"
    whole, pieces = (
        load_tensors(tmp_path / folder / "model.safetensors")[0] for folder in ("whole", "pieces")
    )
    assert whole.keys() == pieces.keys()
    assert all(bool((whole[key] == pieces[key]).all()) for key in whole)


def test_saved_and_loaded(run_catnf: Run, story: Path, tmp_path: Path) -> None:
    train(run_catnf, story, "mixture", "runs")
    run_catnf("export", "runs", "-o", "mine.safetensors", "--dtype", "float32")
    one, two = load(tmp_path / "runs"), load(tmp_path / "mine.safetensors")
    assert one.digest() == two.digest()
    x = one.task.evaluation("test", 2)
    assert one.log_prob(x, 2, seed=1).tolist() == two.log_prob(x, 2, seed=1).tolist()
    assert one.sample(2, seed=1).tolist() == two.sample(2, seed=1).tolist()


def test_the_bundled_model_knows_english(run_catnf: Run) -> None:
    """Its likelihoods must not change with the code."""
    fitted = load(DEFAULT_MODEL)

    def bits(text: str) -> float:
        codes = torch.from_numpy(fitted.task.vocabulary.encode(text).codes).long().unsqueeze(0)
        return float(-fitted.log_prob(codes, samples=4, seed=0)) / math.log(2) / len(text)

    text = (
        "the history of the roman empire is divided into several periods each of them named after an emperor"
    )
    assert bits(text) == pytest.approx(0.979, abs=0.01)
    assert bits(text[::-1]) > 4
    written = run_catnf("sample", DEFAULT_MODEL, "--prompt", "The History of", "--length", 30, "-n", 2)
    assert written.code == 0
    assert [line[:14] for line in written.out.splitlines()] == ["the history of"] * 2
    assert "Taken in lower case: 'H' (1), 'T' (1)." in written.err


def test_texts_in_python(run_catnf: Run, story: Path) -> None:
    train(run_catnf, story, "mixture", "runs")
    texts = sample_texts(2, "runs", prompt="the dog", length=20, seed=3)
    assert texts == sample_texts(2, load("runs"), prompt="the dog", length=20, seed=3)
    assert [text[:7] for text in texts] == ["the dog"] * 2
    with pytest.raises(InputError, match="sets/shuffling/mixture knows no text"):
        sample_texts(1, "sets/shuffling/mixture")


def test_prepared_words(run_catnf: Run, story: Path) -> None:
    outcome = run_catnf("data", "text", story, "--level", "words", "--size", 6, "--json")
    told = json.loads(outcome.out)
    assert told["categories"] == 6
    assert told["path"].endswith("story.txt-words.npz")
    assert sum(told["unknown"]["train"].values()) > 0
    shown = run_catnf("data", "text", story, "--level", "words", "--size", 6)
    assert "unknown" in shown.err
    assert "6 different symbols" in shown.err


def test_prompts_tell_what_is_unknown(run_catnf: Run, story: Path) -> None:
    train(run_catnf, story, "lstm", "runs")
    outcome = run_catnf("sample", "runs", "-n", 1, "--prompt", "THE €", "--length", 9)
    assert "Taken in lower case: 'E' (1), 'H' (1), 'T' (1)." in outcome.err
    assert "Unknown, and taken as" in outcome.err
    outcome = run_catnf("sample", "runs", "-n", 2, "--length", 50, "-o", "out.txt")
    assert outcome.code == 0
    assert len(Path("out.txt").read_text().splitlines()) == 2, "newlines are written as \\n"


def test_an_alphabet_of_any_characters(run_catnf: Run, tmp_path: Path) -> None:
    odd = tmp_path / "odd.md"
    odd.write_text("😀 🙂 \x85\u2028\t\"quoted\\ 'like: #this' \x7f\n" * 80, encoding="utf-8")
    assert train(run_catnf, odd, "lstm", "runs", "training.steps=2").code == 0
    again = train(run_catnf, odd, "lstm", "runs", "training.steps=2")
    assert again.code == 0, again.err
    task = load("runs").task
    assert task.categories == len(set(odd.read_text(encoding="utf-8"))) + 1


def test_settings_of_sentences_learn_a_text_too(run_catnf: Run, story: Path) -> None:
    outcome = run_catnf(
        *("train", "text/ptb/lstm", "--text", story, "-o", "runs", "--quiet"),
        *options("lstm", "model.feed_forward=0", "training.validate_every=0"),
    )
    assert outcome.code == 0, outcome.err


def test_words_of_prompts_are_taken_in_lower_case(run_catnf: Run, story: Path) -> None:
    arguments = (
        "train",
        "text/text8-words/lstm",
        "--text",
        story,
        "--level",
        "words",
        "-o",
        "runs",
        "--quiet",
    )
    assert run_catnf(*arguments, *options("lstm", "training.validate_every=0")).code == 0
    outcome = run_catnf("sample", "runs", "-n", 1, "--prompt", "The cat", "--length", 4)
    assert outcome.out.startswith("the cat"), outcome.err
    assert "Taken in lower case: 'The' (1)." in outcome.err
    assert "The prompt ' ' has no words" in run_catnf("sample", "runs", "--prompt", " ").err


def test_a_prompt_becomes_a_sentence_of_any_length() -> None:
    """The bundled model knows how long sentences are, so a prompt does not make them as long as can be."""
    texts = sample_texts(12, "text/ptb/lexicon-small", prompt="the company said ", seed=1)
    assert all(text.startswith("the company said ") for text in texts)
    assert len({len(text) for text in texts}) > 6
    assert sum(len(text) for text in texts) < 12 * 220
    with pytest.raises(
        InputError, match="The prompt has 300 symbols, but this model knows texts of up to 288"
    ):
        sample_texts(1, "text/ptb/lexicon-small", prompt="a " * 150)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--prompt", ""], "The prompt is empty"),
        (["--prompt", "the", "--length", "3"], "length is 3; give one from 4"),
        (["-n", "0"], "-n is 0; give at least 1"),
        (["--largest"], "--largest is for molecules"),
    ],
)
def test_bad_options(run_catnf: Run, story: Path, arguments: list[str], message: str) -> None:
    train(run_catnf, story, "lstm", "runs", "training.steps=1")
    outcome = run_catnf("sample", "runs", *arguments)
    assert outcome.code == 2
    assert message in outcome.err


def test_what_is_no_text(run_catnf: Run, story: Path) -> None:
    outcome = run_catnf("train", "sets/shuffling/mixture", "--text", story)
    assert "--text is for models of text, which sets/shuffling/mixture is not" in outcome.err
    assert "give a UTF-8 file with --text" in run_catnf("train", "text").err
    assert (
        "--prompt and --length are for text"
        in run_catnf("sample", "sets/shuffling/mixture", "--prompt", "a").err
    )
    assert "give a name that ends in .npz" in run_catnf("data", "text", story, "-o", "out.txt").err


def test_a_run_that_ends_before_its_warm_up_says_so(run_catnf: Run, story: Path) -> None:
    done = train(run_catnf, story, "lstm", "runs", "training.warmup=50")
    assert done.code == 0
    assert "Learning rates were still rising, for 50 steps" in done.err
    assert "--set training.warmup=1" in done.err


def test_texts_are_scored(run_catnf: Run, story: Path) -> None:
    """Every line by itself, however long the others are; the most unusual come first."""
    train(run_catnf, story, "lstm", "runs", "training.steps=60", "training.matrix_learning_rate=0.02")
    lines = ["the cat sat on the mat; the dog ran away.", "the dog", "tttt €€ mmmm"]
    Path("lines.txt").write_text("\n".join([lines[0], "", *lines[1:]]) + "\n", encoding="utf-8")
    told = json.loads(run_catnf("score", "runs", "lines.txt", "--json").out)
    assert told["texts"][0]["line"] == 4
    assert sorted(found["line"] for found in told["texts"]) == [1, 3, 4]
    scored = score_texts(lines, "runs")
    assert [one.symbols for one in scored] == [41, 7, 12]
    assert [one.unknown for one in scored] == [0, 0, 2]
    fitted = load("runs")
    for line, one in zip(lines, scored, strict=True):
        codes = torch.from_numpy(fitted.task.vocabulary.encode(line).codes.astype("int64"))
        nats = float(fitted.log_prob(codes[None]))
        assert one.bits == pytest.approx(-nats / math.log(2), rel=1e-4)
        assert one.bits_per_symbol == one.bits / len(codes)
    written = run_catnf("score", "lines.txt", "--model", "runs", "-o", "scores.csv")
    assert written.code == 0, written.err
    assert Path("scores.csv").read_text().splitlines()[0] == "line,text,symbols,unknown,bits,bits_per_char"
    with pytest.raises(InputError, match="Text 1 is '', which has no symbols"):
        score_texts(["a", ""], "runs")
    assert score_texts([], "runs") == []
    assert [one.text for one in score_texts(iter(lines), "runs")] == lines
    for wrong in ("the dog", [None]):
        with pytest.raises(InputError, match="list of strings"):
            score_texts(wrong, "runs")  # type: ignore[arg-type]
    Path("empty.txt").write_text("\n")
    assert "empty.txt has no texts; give one in a line." in run_catnf("score", "runs", "empty.txt").err
    assert "--column is for molecules" in run_catnf("score", "runs", "lines.txt", "--column", "a").err


def test_scores_of_sentences_hardly_depend_on_their_company() -> None:
    """A flow's bound has noise, but padding has no part in it; a blank ends a sentence, given or not."""
    texts = ["the company said it would sell its stake ", "stocks fell", "shares of the bank rose in london"]
    together = score_texts(texts, "text/ptb/lexicon-small", samples=20)
    for text, one in zip(texts, together, strict=True):
        (alone,) = score_texts([text.strip()], "text/ptb/lexicon-small", samples=20, seed=1)
        assert one.bits == pytest.approx(alone.bits, abs=0.3)
        assert one.symbols == len(text.strip()) + 1


def test_a_page_needs_a_model_that_continues_texts(run_catnf: Run, story: Path) -> None:
    train(run_catnf, story, "parallel", "runs")
    with pytest.raises(InputError, match="runs writes many symbols at once and cannot continue a text"):
        Studio("runs")


def test_a_run_does_not_go_on_with_another_text(run_catnf: Run, story: Path) -> None:
    train(run_catnf, story, "mixture", "runs")
    longer = "training.steps=8"
    assert train(run_catnf, story, "mixture", "runs", longer).code == 0
    story.write_text("the dog sat on the mat; the cat ran away.\n" * 60, encoding="utf-8")
    told = train(run_catnf, story, "mixture", "runs", longer)
    assert told.code == 2
    assert "holds a run on other data than text/file has now; give it the former data" in told.err
    assert train(run_catnf, story, "mixture", "others").code == 0


def test_a_refused_training_leaves_no_folder(run_catnf: Run, story: Path, tmp_path: Path) -> None:
    story.write_text("too short", encoding="utf-8")
    told = train(run_catnf, story, "mixture", "runs")
    assert told.code == 2, told.err
    assert not (tmp_path / "runs").exists()


def test_texts_written_in_rounds_are_scored_at_any_length(run_catnf: Run, story: Path) -> None:
    """Whatever is scored beside them."""
    train(run_catnf, story, "parallel", "runs")
    texts = ["the dog ", "a", "the cat sat on t"]
    scored = score_texts(texts, "runs", samples=50)
    assert [one.symbols for one in scored] == [8, 1, 16]
    for text, one in zip(texts, scored, strict=True):
        (alone,) = score_texts([text], "runs", samples=50, seed=1)
        assert one.bits == pytest.approx(alone.bits, rel=0.03)
