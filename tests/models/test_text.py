"""Models of texts: bounds, exactness, prompts, lengths."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from catnf.context import Context, SequenceContext
from catnf.errors import InputError
from catnf.flows.base import Logistic
from catnf.models import Model, TextFlow
from catnf.tasks.text import models
from catnf.tasks.text.lexicon import count_words
from catnf.tasks.text.models import TextModelConfig, build_text_model

Seeded = Callable[[int], torch.Generator]
Perturb = Callable[[nn.Module, float], nn.Module]
CATEGORIES, ELEMENTS = 4, 4
SIZES: dict[str, object] = {
    **{"channels": 2, "mixtures": 3, "hidden": 8, "blocks": 1, "heads": 2, "width": 6},
    **{"features": 4, "encoder_hidden": 6, "dropout": 0.2, "input_dropout": 0.1},
}
KINDS: dict[str, dict[str, object]] = {
    "anchored": {},
    "free": {"anchored": False},
    "two layers": {"layers": 2},
    "transformer": {"network": "transformer"},
    "linear recurrence": {"network": "linear-recurrence", "reads": 2},
    "lexicon": {"network": "lexicon", "lexicon": 6},
    "weights alone": {"changes": False},
    "lexicon, weights alone": {"network": "lexicon", "lexicon": 6, "changes": False},
    "latent, weights alone": {"kind": "text-latent", "changes": False},
    "words": {},  # as if four categories were too many for tables
    "words, network": {"anchored": False, "decoder": "network"},
    "words, tied": {"anchored": False, "decoder": "tied"},
    "words, latent": {"kind": "text-latent"},
    "latent": {"kind": "text-latent"},
    "latent, free": {"kind": "text-latent", "anchored": False},
    "parallel": {"kind": "text-parallel", "rounds": 2, "run": 2, "reads": 2},
    "words, parallel": {"kind": "text-parallel", "rounds": 3, "run": 1},
    "lstm": {"kind": "text-lm"},
    "language transformer": {"kind": "text-lm", "network": "transformer"},
    "language lexicon": {"kind": "text-lm", "network": "lexicon", "lexicon": 6},
}
every = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def model(kind: str, perturb: Perturb, monkeypatch: pytest.MonkeyPatch) -> Model:
    if kind.startswith("words"):
        monkeypatch.setattr(models, "_TABLE_LIMIT", 2)
    config = TextModelConfig(**(SIZES | KINDS[kind]))  # type: ignore[arg-type]
    lengths = torch.tensor([0.0, 1.0, 1.0, 1.0, 3.0])
    frequencies = torch.tensor([0.4, 0.3, 0.2, 0.1])
    # Symbol 0 ends a word; some of the words begin alike, and many are none of these.
    words = count_words(
        np.array([1, 0, 2, 2, 0, 2, 0, 1, 2, 0, 1, 0, 0], dtype=np.uint8), [0], config.lexicon
    )
    made = build_text_model(config, frequencies, lengths, None, words).eval()
    perturb(made, 0.1)
    return made


def texts(batch: int = 3, seed: int = 0) -> Tensor:
    return torch.randint(CATEGORIES, (batch, ELEMENTS), generator=torch.Generator().manual_seed(seed))


@every
def test_shapes_and_seeds(model: Model, seeded: Seeded) -> None:
    x = texts()
    ctx = SequenceContext.of(x, torch.tensor([4, 2, 1]))
    nats = model.log_prob(x, ctx, 3, seeded(1))
    assert nats.shape == (3,)
    assert torch.isfinite(nats).all()
    assert torch.equal(nats, model.log_prob(x, ctx, 3, seeded(1)))
    other = ctx.hide(x) + (~ctx.mask).long()  # type: ignore[operator]
    assert torch.equal(nats, model.log_prob(other, ctx, 3, seeded(1))), "padding does not count"
    drawn = model.sample(ctx, seeded(2))
    assert drawn.shape == x.shape
    assert torch.equal(drawn, model.sample(ctx, seeded(2)))
    assert torch.equal(drawn, ctx.hide(drawn))
    assert model.reconstruct(x, ctx, seeded(3)).shape == x.shape
    loss, _ = model.loss(x, ctx, seeded(4))
    gradients = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    names = [name for name, _ in model.named_parameters()]
    idle = [name for name, gradient in zip(names, gradients, strict=True) if gradient is None]
    assert all(name.endswith("coupling.spread") for name in idle), idle


@every
def test_every_symbol_counts_alike(model: Model, seeded: Seeded) -> None:
    x = texts(2)
    ctx = SequenceContext.of(x, torch.tensor([4, 1]))
    _, nats = model.loss(x, ctx, seeded(1))
    bound = model.training_bound(x, ctx, seeded(1)).value
    torch.testing.assert_close(nats, -bound.sum().detach() / 5)


@every
def test_probabilities_of_all_texts(kind: str, model: Model, seeded: Seeded) -> None:
    """They sum to one where they are exact, and to no more than one where they are bounds."""
    x = torch.tensor(list(itertools.product(range(CATEGORIES), repeat=2)))
    ctx = SequenceContext.of(x)
    if model.exact:
        assert float(model.log_prob(x, ctx).exp().sum()) == pytest.approx(1.0, abs=1e-5)
        return
    draws = torch.stack([model.log_prob(x, ctx, 1, seeded(seed)) for seed in range(64)])
    one, many = draws.mean(0), model.log_prob(x, ctx, 2000, seeded(1))
    # But for rounding and for chance: bounds that are nearly exact reach one.
    chance = float((one.exp() * draws.std(0)).norm()) / len(draws) ** 0.5
    assert float(one.exp().sum()) < 1.0 + 1e-5 + 3.0 * chance
    assert (many > one - 0.3).all(), "more draws tighten the bound"
    close = kind in ("anchored", "transformer", "linear recurrence", "lexicon", "words", "parallel")
    total = float(many.exp().sum())
    # Where encodings do not know what the flow expects, few draws hold most of the weight.
    assert total == pytest.approx(1.0, abs=0.1) if close else 0.1 < total < 1.3


@pytest.mark.parametrize(
    "kind",
    [
        "anchored",
        "free",
        "two layers",
        "transformer",
        "linear recurrence",
        "lexicon",
        "weights alone",
        "lexicon, weights alone",
        "latent, weights alone",
        "words",
        "latent",
        "words, latent",
        "parallel",
        "words, parallel",
    ],
)
def test_flow_forth_and_back(model: Model, seeded: Seeded) -> None:
    assert isinstance(model, TextFlow)
    x = texts()
    ctx = model.prepare(SequenceContext.of(x, torch.tensor([4, 3, 1])), None)
    z = model.encoding.encode(ctx.hide(x), ctx.bare(), seeded(1)).z
    with torch.no_grad():
        y, logdet = model.flow(z, ctx)
        torch.testing.assert_close(model.flow.inverse(y, ctx), z, atol=1e-3, rtol=1e-3)
        density = model.flow.log_density(z, ctx, Logistic())
        step_by_step = model.flow(z, replace(ctx, stepwise=True))
    torch.testing.assert_close(step_by_step, (y, logdet), atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(density, ctx.total(Logistic().log_prob(y)) + logdet, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("kind", ["words", "weights alone"])
def test_density_of_mixtures_of_categories_against_the_jacobian(model: Model, seeded: Seeded) -> None:
    assert isinstance(model, TextFlow)
    ctx = model.prepare(SequenceContext(1, ELEMENTS), None)
    z = torch.randn(1, ELEMENTS, 2, generator=seeded(1))

    def flat(values: Tensor) -> Tensor:
        return model.flow(values.view_as(z), ctx)[0].flatten()

    jacobian = torch.autograd.functional.jacobian(flat, z.flatten())
    assert torch.equal(jacobian.triu(1), torch.zeros_like(jacobian))
    torch.testing.assert_close(
        jacobian.diagonal().log().sum(), model.flow(z, ctx)[1][0], atol=1e-3, rtol=1e-3
    )


@every
def test_prompts(kind: str, model: Model, seeded: Seeded) -> None:
    prompt = torch.tensor([[3, 1], [0, 2]])
    ctx = SequenceContext(2, ELEMENTS, prompt=prompt)
    if "parallel" in kind:
        with pytest.raises(InputError, match="cannot continue a prompt"):
            model.sample(ctx, seeded(1))
        return
    drawn = model.sample(ctx, seeded(1))
    assert torch.equal(drawn[:, :2], prompt)
    assert drawn.shape == (2, ELEMENTS)
    for bad in (torch.zeros(2, ELEMENTS, dtype=torch.long), torch.zeros(1, 2, dtype=torch.long)):
        with pytest.raises(InputError, match="The prompt has shape"):
            model.sample(SequenceContext(2, ELEMENTS, prompt=bad), seeded(1))
    with pytest.raises(InputError, match="outside of 0 to 3"):
        model.sample(SequenceContext(2, ELEMENTS, prompt=prompt + 9), seeded(1))


@pytest.mark.parametrize(
    "kind",
    [
        "anchored",
        "weights alone",
        "transformer",
        "linear recurrence",
        "lexicon",
        "words",
        "latent",
        "parallel",
    ],
)
def test_what_is_reconstructed_comes_back_to_the_last_digits(model: Model, seeded: Seeded) -> None:
    assert isinstance(model, TextFlow)
    x = torch.randint(CATEGORIES, (16, 64), generator=seeded(1))
    ctx = replace(model.prepare(SequenceContext.of(x), None), stepwise=True)
    z = model.encoding.encode(x, ctx.bare(), seeded(2)).z
    back = model.flow.inverse(model.flow(z.double(), ctx)[0], ctx)
    torch.testing.assert_close(back, z.double(), atol=1e-8, rtol=1e-8)
    assert torch.equal(model.reconstruct(x, ctx, seeded(2)), model.encoding.decode(z, ctx.bare()))


@pytest.mark.parametrize("kind", ["anchored", "lstm", "language lexicon"])
def test_what_follows_a_prompt_is_likely(model: Model, seeded: Seeded) -> None:
    """The share of continuations equals `p(prompt and more) / p(prompt)`."""
    prompt, count = torch.tensor([[3, 1]]), 16_000
    ctx = SequenceContext(count, 3, prompt=prompt.expand(count, -1))
    drawn = torch.bincount(model.sample(ctx, seeded(1))[:, 2], minlength=CATEGORIES) / count
    x = torch.cat([prompt.expand(CATEGORIES, -1), torch.arange(CATEGORIES).unsqueeze(1)], dim=1)
    weights = model.log_prob(x, SequenceContext.of(x), 3000, seeded(2)).softmax(0)
    # The flow continues one draw of the prompt's latents and decodes to the most probable symbol.
    assert (drawn - weights).abs().max() < (0.02 if model.exact else 0.15)


@every
def test_lengths_are_drawn(model: Model, seeded: Seeded) -> None:
    ctx = model.draw_context(4000, seeded(1))
    assert ctx is not None
    lengths = ctx.counts(torch.zeros(1)).long()
    shares = torch.bincount(lengths, minlength=5) / 4000
    assert shares[0] == 0
    torch.testing.assert_close(shares[1:], torch.tensor([1 / 6, 1 / 6, 1 / 6, 0.5]), atol=0.03, rtol=0)


@pytest.mark.parametrize("kind", ["lstm", "anchored"])
def test_colder_samples_are_more_alike(model: Model, seeded: Seeded) -> None:
    ctx = SequenceContext(500, ELEMENTS)
    cold = {tuple(row) for row in model.sample(ctx, seeded(1), 0.1).tolist()}
    warm = {tuple(row) for row in model.sample(ctx, seeded(1)).tolist()}
    assert len(cold) < len(warm)


def test_separated_words_cost_what_a_language_model_costs(
    seeded: Seeded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With logistics far apart, decoding is certain and the bound is the weight of the right word."""
    monkeypatch.setattr(models, "_TABLE_LIMIT", 2)
    model = build_text_model(TextModelConfig(**SIZES), torch.full((CATEGORIES,), 0.25))  # type: ignore[arg-type]
    assert isinstance(model, TextFlow)
    with torch.no_grad():
        model.encoding.place.weight.mul_(30.0)
    x = texts(16)
    nats = model.log_prob(x, SequenceContext.of(x), 1, seeded(1))
    assert nats.mean() / ELEMENTS == pytest.approx(-math.log(CATEGORIES), abs=0.1)


@pytest.mark.parametrize("categories", [CATEGORIES, 300])
def test_latents_of_either_encoding_start_at_a_language_model(seeded: Seeded, categories: int) -> None:
    """An anchored flow says of latents what their density is, whoever made them: the baseline's as ours."""
    x = torch.randint(categories, (64, ELEMENTS), generator=seeded(1))
    for kind in ("text-flow", "text-latent"):
        torch.manual_seed(0)
        config = TextModelConfig(**(SIZES | {"kind": kind, "channels": 4, "spread": 8.0}))  # type: ignore[arg-type]
        model = build_text_model(config, torch.full((categories,), 1.0 / categories))
        assert isinstance(model, TextFlow)
        bound = model.bound(x, SequenceContext.of(x), seeded(2))
        # Without what the decoder, which knows nothing yet, takes.
        nats = (bound.value - bound.log_posterior).detach().mean() / ELEMENTS
        assert nats == pytest.approx(-math.log(categories), abs=0.25), kind


@pytest.mark.parametrize(
    "kind",
    [
        "anchored",
        "weights alone",
        "lexicon, weights alone",
        "transformer",
        "linear recurrence",
        "lexicon",
        "words",
        "latent",
        "words, latent",
        "parallel",
    ],
)
def test_compiled_equals_eager(model: Model, seeded: Seeded) -> None:
    """What engines compile has no part that they could not, padded or not."""
    x = texts(4)
    contexts = [SequenceContext.of(x), SequenceContext.of(x, torch.tensor([4, 3, 2, 1]))]
    before = [model.loss(x, ctx, seeded(1))[0] for ctx in contexts]
    for part in model.modules():
        if getattr(part, "compile_unit", False):
            part.compile(dynamic=False, fullgraph=True, backend="aot_eager")
    for ctx, eager in zip(contexts, before, strict=True):
        torch.testing.assert_close(model.loss(x, ctx, seeded(1))[0], eager)


@every
def test_other_contexts_are_refused(model: Model) -> None:
    with pytest.raises(InputError, match="SequenceContext"):
        model.bound(texts(), Context(3, ELEMENTS))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"channels": 0}, r"model\.channels is 0; give at least 1"),
        ({"dropout": 1.0}, r"model\.dropout is 1\.0; give a share"),
        ({"changes": False, "anchored": False}, r"model\.changes is false, but only an anchored flow"),
        ({"feed_forward": -1}, r"model\.feed_forward is -1; give 0 for none, or more"),
        ({"network": "transformer", "feed_forward": 2}, r"every layer of a transformer has one anyway"),
        ({"network": "transformer", "weight_dropout": 0.1}, r"a transformer has no matrices over time"),
        ({"network": "transformer", "hidden": 7}, r"model\.hidden is 7; choose an even multiple"),
        ({"kind": "text-parallel", "network": "lexicon"}, r"model\.network is lexicon, but only a language"),
        ({"kind": "text-parallel", "rounds": 2000}, r"model\.rounds is 2000; give from 1 to 1,024"),
        ({"kind": "text-parallel", "rounds": 0}, r"model\.rounds is 0; give at least 1"),
        (
            {"kind": "text-parallel", "run": 3, "reads": 2},
            r"model\.reads is 2, so that no run would read all",
        ),
        ({"kind": "text-parallel", "layers": 2}, r"model\.layers is 2, but a text-parallel"),
        ({"kind": "text-parallel", "anchored": False}, r"model\.anchored is false and model\.layers is 1"),
        ({"encoder_hidden": 5}, r"model\.encoder_hidden is 5; give an even number"),
        ({"reach": 0.0}, r"model\.reach is 0\.0"),
        ({"spread": -1.0}, r"model\.spread is -1\.0"),
        ({"network": "linear-recurrence", "weight_dropout": 0.1}, r"linear-recurrence has no matrices over"),
        ({"network": "linear-recurrence", "feed_forward": 2}, r"every layer of a linear-recurrence has one"),
        ({"reads": 2}, r"model\.reads is 2, but only a transformer or linear-recurrence"),
        ({"network": "lexicon", "kind": "text-latent"}, r"model\.network is lexicon, but only a language"),
        ({"network": "lexicon", "anchored": False}, r"model\.network is lexicon, but only a language"),
    ],
)
def test_bad_sizes(bad: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TextModelConfig(**(SIZES | bad))  # type: ignore[arg-type]
