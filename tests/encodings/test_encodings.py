"""Properties that every encoding has, whatever its kind."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd.functional import jacobian

from catnf.context import SetContext
from catnf.encodings import (
    DequantizationEncoding,
    Encoding,
    JointEncoding,
    LinearFlowEncoding,
    MixtureEncoding,
    SpacedEncoding,
    VariationalEncoding,
    WordEncoding,
)
from catnf.encodings.variational import Decoder
from catnf.encodings.words import WordDecoding
from catnf.nets import SetTransformer

CATEGORIES, CHANNELS, FEATURES = 5, 3, 4
FREQUENCIES = torch.tensor([0.1, 0.15, 0.2, 0.25, 0.3])
Seeded = Callable[[int], torch.Generator]


def transformer(inputs: int, outputs: int, features: int = 0) -> nn.Module:
    return SetTransformer(inputs, outputs, features, hidden=8, layers=1, heads=2)


def informed(inputs: int, outputs: int) -> nn.Module:
    return transformer(inputs, outputs, FEATURES)


def linear(categories: int, channels: int = CHANNELS) -> LinearFlowEncoding:
    frequencies = torch.full((categories,), 1 / categories)
    return LinearFlowEncoding(frequencies, channels, layers=2, features=FEATURES, hidden=8)


def joint() -> JointEncoding:
    encoder, decoder = transformer(FEATURES, 2 * CHANNELS), transformer(CHANNELS, CATEGORIES)
    return JointEncoding(CATEGORIES, CHANNELS, encoder, decoder, FEATURES)


def words(decoder: WordDecoding) -> WordEncoding:
    return WordEncoding(FREQUENCIES, CHANNELS, torch.randn(CATEGORIES, FEATURES), 16, decoder)


ENCODINGS: dict[str, Callable[[], Encoding]] = {
    "mixture": lambda: MixtureEncoding(FREQUENCIES, CHANNELS),
    "mixture, 1 channel": lambda: MixtureEncoding(FREQUENCIES, 1),
    "mixture, decoder": lambda: MixtureEncoding(FREQUENCIES, CHANNELS, Decoder(CHANNELS, CATEGORIES, 16)),
    "spaced": lambda: SpacedEncoding(CATEGORIES),
    "linear": lambda: linear(CATEGORIES),
    "linear, many categories": lambda: linear(23),
    "variational": lambda: VariationalEncoding(CATEGORIES, CHANNELS, 2, 3, FEATURES, informed, hidden=16),
    "dequantization": lambda: DequantizationEncoding(CATEGORIES, 2, 3, FEATURES, informed),
    "joint": joint,
    "words": lambda: words("bayes"),
    "words, network": lambda: words("network"),
    "words, tied": lambda: words("tied"),
}
EQUIVARIANT = [name for name in ENCODINGS if name != "dequantization"]  # which has chess masks
every = pytest.mark.parametrize("name", ENCODINGS)
every_learned = pytest.mark.parametrize("name", [name for name in ENCODINGS if name != "spaced"])


@pytest.fixture
def encoding(name: str, perturb: Callable[..., Encoding]) -> Encoding:
    return perturb(ENCODINGS[name]())


def draw(encoding: Encoding, batch: int = 3, elements: int = 4, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Categories `[batch, elements]` and noise `[batch, elements, channels]`."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(encoding.categories, (batch, elements), generator=generator)
    return x, encoding.noise.sample((batch, elements, encoding.channels), generator)


@every
def test_posterior_is_a_distribution(encoding: Encoding, seeded: Seeded) -> None:
    z = 5.0 * torch.randn(2, 4, encoding.channels, generator=seeded(1))
    log_posterior = encoding.posterior(z, SetContext(2, 4))
    assert log_posterior.shape == (2, 4, encoding.categories)
    torch.testing.assert_close(log_posterior.exp().sum(-1), torch.ones(2, 4))
    assert torch.equal(encoding.decode(z, SetContext(2, 4)), log_posterior.argmax(-1))


@pytest.mark.parametrize("name", ["words"])
def test_scores_belong_to_the_latents(encoding: Encoding) -> None:
    assert isinstance(encoding, WordEncoding)
    x, noise = draw(encoding)
    encoded = encoding(x, noise, SetContext.of(x))
    assert encoded.scores is not None
    own = encoded.scores.gather(-1, x.unsqueeze(-1)).sum((1, 2))
    torch.testing.assert_close(own, encoded.log_density)
    expected = torch.log_softmax(encoded.scores + encoding.log_prior, dim=-1)
    torch.testing.assert_close(expected, encoding.posterior(encoded.z, SetContext.of(x)))


@every
def test_log_posterior_belongs_to_the_latents(encoding: Encoding) -> None:
    x, noise = draw(encoding)
    ctx = SetContext.of(x)
    encoded = encoding(x, noise, ctx)
    expected = encoding.posterior(encoded.z, ctx).gather(-1, x.unsqueeze(-1)).sum((1, 2))
    torch.testing.assert_close(encoded.log_posterior, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(encoded.log_weight, encoded.log_posterior - encoded.log_density)


@every
def test_log_density_follows_the_jacobian(encoding: Encoding) -> None:
    encoding.double()
    x, noise = draw(encoding, batch=1, elements=3)
    ctx, noise = SetContext.of(x), noise.double()
    shape = noise.shape
    matrix = jacobian(lambda flat: encoding(x, flat.view(shape), ctx).z.flatten(), noise.flatten())
    expected = encoding.noise.log_prob(noise).sum() - torch.linalg.slogdet(matrix).logabsdet
    torch.testing.assert_close(encoding(x, noise, ctx).log_density[0], expected, rtol=1e-7, atol=1e-7)


@every
def test_padding_changes_nothing(encoding: Encoding, pad: Callable[..., Tensor]) -> None:
    x, noise = draw(encoding)
    plain = encoding(x, noise, SetContext.of(x))
    mask = pad(torch.ones(3, 4, dtype=torch.bool), 2, False)
    ctx = SetContext(3, 6, mask)
    for filling in (0, encoding.categories - 1):
        encoded = encoding(pad(x, 2, filling), pad(noise, 2), ctx)
        for ours, theirs in zip(encoded[:3], (pad(plain.z, 2), *plain[1:3]), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
        assert (encoded.z[:, 4:] == 0).all()
        drawn = encoding.encode(pad(x, 2, filling), ctx, torch.Generator().manual_seed(3))
        assert (drawn.z[:, 4:] == 0).all()
    posterior = encoding.posterior(encoded.z, ctx)[:, :4]
    torch.testing.assert_close(posterior, encoding.posterior(plain.z, SetContext.of(x)), rtol=1e-4, atol=1e-4)


@every_learned
def test_gradients_reach_every_parameter(encoding: Encoding) -> None:
    x, noise = draw(encoding, batch=12)
    encoded = encoding(x, noise, SetContext.of(x))
    weights = torch.randn(encoded.z.shape, generator=torch.Generator().manual_seed(2))
    ((encoded.z * weights).sum() + encoded.log_posterior.sum() - encoded.log_density.sum()).backward()
    for name, parameter in encoding.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert (parameter.grad != 0).any(), name


@every
def test_a_draw_is_a_function_of_its_seed(encoding: Encoding, seeded: Seeded) -> None:
    x, noise = draw(encoding)
    ctx = SetContext.of(x)
    for first, again in zip(encoding(x, noise, ctx)[:3], encoding(x, noise, ctx)[:3], strict=True):
        assert torch.equal(first, again)
    one, same, other = (encoding.encode(x, ctx, seeded(seed)).z for seed in (4, 4, 5))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


@pytest.mark.parametrize("name", EQUIVARIANT)
def test_permutation_equivariance(encoding: Encoding) -> None:
    x, noise = draw(encoding)
    # Examples of different sizes; the padding moves along with the elements.
    mask = torch.tensor([[True] * 4, [True] * 3 + [False], [True] * 2 + [False] * 2])
    noise = SetContext.of(x, mask).hide(noise)
    plain = encoding(x, noise, SetContext.of(x, mask))
    for order in ([2, 0, 3, 1], [3, 2, 1, 0]):
        ctx = SetContext.of(x, mask[:, order])
        moved = encoding(x[:, order], noise[:, order], ctx)
        for ours, theirs in zip(moved[:3], (plain.z[:, order], *plain[1:3]), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
        posterior = encoding.posterior(plain.z, SetContext.of(x, mask))[:, order]
        torch.testing.assert_close(
            encoding.posterior(plain.z[:, order], ctx)[ctx.mask], posterior[ctx.mask], rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("name", ["dequantization"])
def test_chess_masks_see_the_order(encoding: Encoding) -> None:
    x, noise = draw(encoding)
    order = torch.tensor([1, 2, 3, 0])
    moved = encoding(x[:, order], noise[:, order], SetContext.of(x)).z
    assert not torch.allclose(moved, encoding(x, noise, SetContext.of(x)).z[:, order], atol=1e-3)


@every
def test_single_precision_is_enough(encoding: Encoding) -> None:
    x, noise = draw(encoding, batch=12)
    ctx = SetContext.of(x)
    exact = copy.deepcopy(encoding).double()(x, noise.double(), ctx)
    for ours, theirs in zip(encoding(x, noise, ctx)[:3], exact[:3], strict=True):
        assert (ours.dtype, theirs.dtype) == (torch.float32, torch.float64)
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-4)


@every_learned
def test_save_and_load(name: str, encoding: Encoding) -> None:
    if isinstance(encoding, MixtureEncoding | LinearFlowEncoding):  # a prior unlike that of a new one
        encoding.log_prior.add_(torch.randn(encoding.categories))
    buffer = io.BytesIO()
    torch.save(encoding.state_dict(), buffer)
    buffer.seek(0)
    torch.manual_seed(99)
    other = ENCODINGS[name]()
    x, noise = draw(encoding)
    ctx = SetContext.of(x)
    expected = encoding(x, noise, ctx)
    assert not torch.equal(other(x, noise, ctx).z, expected.z)
    other.load_state_dict(torch.load(buffer, weights_only=True))
    for ours, theirs in zip(other(x, noise, ctx)[:3], expected[:3], strict=True):
        assert torch.equal(ours, theirs)
    assert torch.equal(other.posterior(expected.z, ctx), encoding.posterior(expected.z, ctx))


# The C++ compiler takes long, so that it gets one encoding; the others are traced and differentiated alike.
@pytest.mark.parametrize(
    ("name", "backend"),
    [
        pytest.param("mixture", "inductor", marks=pytest.mark.slow),
        ("mixture, decoder", "aot_eager"),
        ("linear", "aot_eager"),
        ("words", "aot_eager"),
        ("linear, many categories", "aot_eager"),
    ],
)
def test_compiled_equals_eager(encoding: Encoding, backend: str) -> None:
    x, noise = draw(encoding)
    ctx = SetContext.of(x, torch.tensor([[True] * 4, [True] * 3 + [False], [True] * 4]))
    noise = ctx.hide(noise)
    assert getattr(encoding, "compile_unit", False), "the engine does not compile this one"
    compiled = copy.deepcopy(encoding)
    compiled.compile(dynamic=False, fullgraph=True, backend=backend)
    results = []
    for module in (encoding, compiled):
        encoded = module(x, noise, ctx)
        loss = encoded.z.square().sum() + encoded.log_weight.sum()
        results.append([*encoded[:3], *torch.autograd.grad(loss, list(module.parameters()))])
    torch.testing.assert_close(results[1], results[0], rtol=1e-3, atol=1e-4)


@every
@given(batch=st.integers(1, 3), elements=st.integers(1, 4))
def test_any_shape(name: str, batch: int, elements: int) -> None:
    encoding = ENCODINGS[name]()
    x, noise = draw(encoding, batch, elements)
    encoded = encoding(x, noise, SetContext.of(x))
    assert encoded.z.shape == (batch, elements, encoding.channels)
    assert encoded.log_posterior.shape == encoded.log_density.shape == (batch,)
    assert all(torch.isfinite(part).all() for part in encoded[:3])
    assert encoding.decode(encoded.z, SetContext.of(x)).shape == x.shape


@pytest.mark.parametrize("name", ["mixture, decoder", "linear, many categories", "variational", "joint"])
def test_learned_decoders_learn_to_decode(name: str) -> None:
    encoding = linear(23, channels=8) if name == "linear, many categories" else ENCODINGS[name]()
    x, noise = draw(encoding, batch=64)
    ctx = SetContext.of(x)
    optimizer = torch.optim.Adam(encoding.parameters(), lr=0.03)
    for _ in range(60):
        optimizer.zero_grad()
        (-encoding(x, noise, ctx).log_posterior.mean()).backward()
        optimizer.step()
    x, noise = draw(encoding, batch=64, seed=1)
    assert (encoding.decode(encoding(x, noise, ctx).z, ctx) == x).float().mean() > 0.9
