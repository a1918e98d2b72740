"""Trained models: where they are found, what files are refused, what they give."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import catnf
from catnf.context import Context, GraphContext
from catnf.errors import InputError, StorageError
from catnf.experiments import load_experiment
from catnf.fitted import FittedModel, bundled_names, load, save_model
from catnf.pairs import pair_count
from catnf.seeds import context_generator, derived_seed, seeded_generator
from catnf.storage import load_tensors, save_tensors
from catnf.tasks.coloring import GraphColoring
from catnf.tasks.molecules import Molecules
from catnf.tasks.text import Text
from catnf.training.run import RunOptions, train

SIZES = ("task.size=4", "model.hidden=16", "model.heads=2", "model.blocks=1", "model.layers=2")
TRAINING = ("training.batch=16", "training.initialization_batches=2", "training.steps=10")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny finished run."""
    folder = tmp_path_factory.mktemp("run")
    experiment = load_experiment("sets/shuffling/mixture", (*SIZES, *TRAINING, "model.mixtures=2"))
    train(experiment, RunOptions(folder, seed=3, device="cpu", quiet=True))
    return folder


@pytest.fixture(scope="module")
def fitted(run: Path) -> FittedModel:
    return load(run)


@pytest.fixture(scope="module")
def x(fitted: FittedModel) -> torch.Tensor:
    return fitted.task.evaluation("test", 40)


def resaved(fitted: FittedModel, path: Path, **options: object) -> list[Path]:
    weights, about = fitted.model.state_dict(), fitted.provenance
    return save_model(path, weights, fitted.experiment, fitted.seed, about, **options)  # type: ignore[arg-type]


def test_folder_file_and_text_name_the_same_model(run: Path, fitted: FittedModel, x: torch.Tensor) -> None:
    expected = fitted.log_prob(x, samples=3, seed=0)
    for given in (run, str(run), run / "model.safetensors", str(run / "model.safetensors")):
        other = load(given)
        assert torch.equal(other.log_prob(x, samples=3, seed=0), expected)
        assert (other.seed, other.experiment) == (3, fitted.experiment)
    assert fitted.provenance["steps"] == 10
    assert not fitted.model.training


def test_checkpoint_of_an_unfinished_run(
    run: Path, fitted: FittedModel, x: torch.Tensor, tmp_path: Path
) -> None:
    (tmp_path / "checkpoint.safetensors").write_bytes((run / "checkpoint.safetensors").read_bytes())
    unfinished = load(tmp_path)
    assert torch.equal(unfinished.log_prob(x, seed=0), fitted.log_prob(x, seed=0))
    assert unfinished.provenance["steps"] == 10


def test_saved_and_loaded_is_the_same_model(fitted: FittedModel, x: torch.Tensor, tmp_path: Path) -> None:
    resaved(fitted, tmp_path / "copy.safetensors")
    assert torch.equal(load(tmp_path / "copy.safetensors").log_prob(x, seed=1), fitted.log_prob(x, seed=1))


def test_shards_give_the_same_model(fitted: FittedModel, x: torch.Tensor, tmp_path: Path) -> None:
    files = resaved(fitted, tmp_path / "model.safetensors", shard_bytes=4000)
    assert len(files) > 3
    for given in (tmp_path / "model.safetensors", files[1], tmp_path):
        assert torch.equal(load(given).log_prob(x, seed=1), fitted.log_prob(x, seed=1))
    files[2].unlink()
    with pytest.raises(StorageError, match=f"lacks its shard {files[2].name}"):
        load(tmp_path)


def test_bfloat16_is_half_as_large_and_close(
    run: Path, fitted: FittedModel, x: torch.Tensor, tmp_path: Path
) -> None:
    path = tmp_path / "small.safetensors"
    resaved(fitted, path, dtype=torch.bfloat16)
    assert path.stat().st_size < 0.75 * (run / "model.safetensors").stat().st_size
    small = load(path)
    assert {p.dtype for p in small.model.parameters()} == {torch.float32}
    torch.testing.assert_close(small.log_prob(x, seed=1), fitted.log_prob(x, seed=1), rtol=0.05, atol=0.1)


def test_bundled_models_load() -> None:
    names = catnf.bundled_names()
    assert names == sorted(names)
    for name in names:
        model = catnf.load(name)
        assert model.experiment.name == name
        if isinstance(model.task, GraphColoring):  # graphs to color come from data
            ctx = GraphContext.of(~torch.eye(3, dtype=torch.bool).expand(2, 3, 3))
            assert sorted(model.sample(2, seed=0, ctx=ctx)[0].tolist()) == [0, 1, 2]
        elif isinstance(model.task, Molecules):
            nodes = model.task.nodes
            assert model.sample(2, seed=0).shape == (2, nodes + pair_count(nodes))
        elif isinstance(model.task, Text):
            assert model.sample(2, seed=0).shape == (2, model.task.window)
        else:
            assert model.sample(2, seed=0).shape == (2, model.task.size)


def test_an_unknown_name_is_refused_with_a_suggestion() -> None:
    with pytest.raises(InputError, match="no bundled model or file 'sets/shuffling/mixtrue'") as caught:
        load("sets/shuffling/mixtrue")
    if "sets/shuffling/mixture" in bundled_names():
        assert "Did you mean 'sets/shuffling/mixture'?" in str(caught.value)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"holds neither model\.safetensors nor checkpoint"):
        load(tmp_path)


def newer(path: Path, tensors: dict[str, torch.Tensor], header: dict[str, object]) -> None:
    save_file(tensors, path, {"catnf": json.dumps({"format": 99, **header})})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("missing", "There is no file"),
        ("text", "truncated or corrupt"),
        ("truncated", "truncated or corrupt"),
        ("foreign", "another program"),
        ("newer", "format 99, but this catnf reads up to 1; upgrade catnf"),
        ("other kind", "holds no model"),
        ("no configuration", "a configuration that this catnf cannot read"),
        ("unknown field", "Unknown field 'depth' in model"),
        ("lost tensor", "does not fit its own configuration"),
        ("odd checkpoint", "does not fit its own configuration"),
    ],
)
def test_unusable_files_are_one_sentence(run: Path, tmp_path: Path, damage: str, message: str) -> None:
    path = tmp_path / "bad.safetensors"
    tensors, header = load_tensors(run / "model.safetensors")
    match damage:
        case "text":
            path.write_text("hello")
        case "truncated":
            path.write_bytes((run / "model.safetensors").read_bytes()[:-50])
        case "foreign":
            save_file(tensors, path)
        case "newer":
            newer(path, tensors, header)
        case "other kind":
            save_tensors(path, tensors, header | {"kind": "picture"})
        case "no configuration":
            save_tensors(path, tensors, {"kind": "model"})
        case "unknown field":
            header["experiment"]["model"]["depth"] = 3
            save_tensors(path, tensors, header)
        case "lost tensor":
            save_tensors(path, dict(list(tensors.items())[1:]), header)
        case "odd checkpoint":
            save_tensors(path, {"average": torch.zeros(7)}, header | {"kind": "checkpoint"})
    with pytest.raises(StorageError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_samples_are_reproducible_and_of_the_right_shape(fitted: FittedModel) -> None:
    drawn = fitted.sample(30, seed=5)
    assert (drawn.shape, drawn.dtype) == ((30, 4), torch.int64)
    assert 0 <= int(drawn.min()) <= int(drawn.max()) < 4
    assert torch.equal(drawn, fitted.sample(30, seed=5))
    assert not torch.equal(drawn, fitted.sample(30, seed=6))
    for chunk in (1, 7, 30, 1000):
        assert fitted.sample(30, seed=5, chunk=chunk).shape == (30, 4)


def test_log_prob_is_reproducible_and_per_example(fitted: FittedModel, x: torch.Tensor) -> None:
    value = fitted.log_prob(x, samples=2, seed=5)
    assert value.shape == (40,)
    assert torch.equal(value, fitted.log_prob(x, samples=2, seed=5))
    assert not torch.equal(value, fitted.log_prob(x, samples=2, seed=6))
    assert fitted.log_prob(x, samples=2, chunk=7).shape == (40,)


@pytest.mark.parametrize(
    "arguments", [{"count": 0}, {"count": 3, "temperature": 0.0}, {"count": 3, "seed": -1}]
)
def test_samples_that_cannot_be_drawn(fitted: FittedModel, arguments: dict[str, float]) -> None:
    with pytest.raises(InputError):
        fitted.sample(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "bad", [torch.full((2, 4), 4), torch.zeros(2, 4), torch.zeros(4).long(), torch.zeros(0, 4).long()]
)
def test_examples_that_cannot_be_scored(fitted: FittedModel, bad: torch.Tensor) -> None:
    with pytest.raises(InputError):
        fitted.log_prob(bad)


def test_arguments_of_the_wrong_kind(fitted: FittedModel) -> None:
    with pytest.raises(InputError, match="rows of whole numbers"):
        fitted.log_prob([[0, 1], [2]])
    with pytest.raises(InputError, match=r"seed is 1\.5; give an integer"):
        fitted.sample(2, seed=1.5)  # type: ignore[arg-type]
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="no GPU for device cuda; use cpu"):
            load("sets/shuffling/mixture", device="cuda")


def test_adjacencies_of_numbers_are_edges() -> None:
    triangle = 1.0 - torch.eye(3)
    ctx = GraphContext.of(triangle.unsqueeze(0))
    assert torch.equal(ctx.edges, triangle.unsqueeze(0).bool())
    with pytest.raises(InputError, match=r"has shape \(3, 3\); give \[batch, elements, elements\]"):
        GraphContext.of(triangle)
    for wrong, what in ((torch.ones(3, 3), "from a node to itself"), (triangle.tril(), "in one direction")):
        with pytest.raises(InputError, match=f"Graph 1 has an edge {what}"):
            GraphContext.of(torch.stack([triangle, wrong])).check()


def test_features_that_examples_share_stay_shared() -> None:
    shared = Context(4, 3, features=torch.ones(1, 3, 2))
    for ctx in (shared.select(2, 4), shared.repeat(2), shared.take(torch.tensor([1, 3])), shared.to("cpu")):
        assert ctx.features is not None
        assert torch.equal(ctx.features, torch.ones(1, 3, 2))


def test_sizes_have_nothing_to_do_with_latents() -> None:
    """They come from the same seed, but from other random numbers."""
    assert derived_seed(3, 1) != derived_seed(3, 2) != derived_seed(4, 1)
    sentences = load("text/ptb/lexicon-small")
    drawn = sentences.sample_context(50, seed=3).counts(torch.zeros(1))
    apart = sentences.model.draw_context(50, context_generator(3, "cpu"))
    tied = sentences.model.draw_context(50, seeded_generator(3, "cpu"))
    assert apart is not None
    assert tied is not None
    assert torch.equal(drawn, apart.counts(torch.zeros(1)))
    assert not torch.equal(drawn, tied.counts(torch.zeros(1)))


def test_to_moves_the_model(fitted: FittedModel) -> None:
    assert fitted.to("cpu") is fitted
    assert fitted.device == torch.device("cpu")
