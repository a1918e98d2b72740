"""Properties that every encoding has, and the ones of a single kind."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd.functional import jacobian
from torch.distributions import AffineTransform, SigmoidTransform, TransformedDistribution, Uniform

from catnf.context import SetContext
from catnf.encodings import (
    DequantizationEncoding,
    Encoding,
    JointEncoding,
    LinearFlowEncoding,
    MixtureEncoding,
    VariationalEncoding,
)
from catnf.encodings.variational import Decoder
from catnf.flows.base import STANDARD_SCALE
from catnf.nets import MLP, SetTransformer

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


ENCODINGS: dict[str, Callable[[], Encoding]] = {
    "mixture": lambda: MixtureEncoding(FREQUENCIES, CHANNELS),
    "mixture, 1 channel": lambda: MixtureEncoding(FREQUENCIES, 1),
    "mixture, decoder": lambda: MixtureEncoding(FREQUENCIES, CHANNELS, Decoder(CHANNELS, CATEGORIES, 16)),
    "linear": lambda: linear(CATEGORIES),
    "linear, many categories": lambda: linear(23),
    "variational": lambda: VariationalEncoding(CATEGORIES, CHANNELS, 2, 3, FEATURES, informed, hidden=16),
    "dequantization": lambda: DequantizationEncoding(CATEGORIES, 2, 3, FEATURES, informed),
    "joint": joint,
}
every = pytest.mark.parametrize("name", ENCODINGS)


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
        for ours, theirs in zip(encoded, (pad(plain.z, 2), *plain[1:]), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
        assert (encoded.z[:, 4:] == 0).all()
        drawn = encoding.encode(pad(x, 2, filling), ctx, torch.Generator().manual_seed(3))
        assert (drawn.z[:, 4:] == 0).all()
    posterior = encoding.posterior(encoded.z, ctx)[:, :4]
    torch.testing.assert_close(posterior, encoding.posterior(plain.z, SetContext.of(x)), rtol=1e-4, atol=1e-4)


@every
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
    for first, again in zip(encoding(x, noise, ctx), encoding(x, noise, ctx), strict=True):
        assert torch.equal(first, again)
    one, same, other = (encoding.encode(x, ctx, seeded(seed)).z for seed in (4, 4, 5))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


@every
@given(batch=st.integers(1, 3), elements=st.integers(1, 4))
def test_any_shape(name: str, batch: int, elements: int) -> None:
    encoding = ENCODINGS[name]()
    x, noise = draw(encoding, batch, elements)
    encoded = encoding(x, noise, SetContext.of(x))
    assert encoded.z.shape == (batch, elements, encoding.channels)
    assert encoded.log_posterior.shape == encoded.log_density.shape == (batch,)
    assert all(torch.isfinite(part).all() for part in encoded)
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


def test_mixtures_far_apart_are_decoded_exactly() -> None:
    encoding = MixtureEncoding(FREQUENCIES, 2)
    with torch.no_grad():
        encoding.raw_means.mul_(100.0)
    assert torch.pdist(encoding.means).min() > 20.0
    x, noise = draw(encoding, batch=200)
    encoded = encoding(x, noise, SetContext.of(x))
    assert torch.equal(encoding.decode(encoded.z, SetContext.of(x)), x)
    torch.testing.assert_close(encoded.log_posterior, torch.zeros(200), rtol=0, atol=1e-6)


def test_linear_flows_far_apart_are_decoded() -> None:
    encoding = linear(CATEGORIES)
    with torch.no_grad():
        norm = next(iter(encoding.flow)).transforms[0]  # type: ignore[union-attr]
        norm.means.weight.mul_(20.0)
    x, noise = draw(encoding, batch=200)
    decoded = encoding.decode(encoding(x, noise, SetContext.of(x)).z, SetContext.of(x))
    assert (decoded == x).float().mean() > 0.99


def test_mixture_densities_and_bayes_rule(perturb: Callable[..., MixtureEncoding]) -> None:
    encoding = perturb(MixtureEncoding(FREQUENCIES, 2))
    x, noise = draw(encoding)
    encoded = encoding(x, noise, SetContext.of(x))
    uniform = Uniform(torch.zeros(CATEGORIES, 2), torch.ones(CATEGORIES, 2))
    scales = encoding.log_scales.exp() * STANDARD_SCALE
    logistic = TransformedDistribution(
        uniform, [SigmoidTransform().inv, AffineTransform(encoding.means, scales)]
    )
    densities = logistic.log_prob(encoded.z.unsqueeze(-2)).sum(-1)  # of every category
    own = densities.gather(-1, x.unsqueeze(-1)).sum((1, 2))
    torch.testing.assert_close(encoded.log_density, own, rtol=1e-4, atol=1e-4)
    weighted = densities.exp() * FREQUENCIES
    expected = torch.log(weighted / weighted.sum(-1, keepdim=True))
    torch.testing.assert_close(
        encoding.posterior(encoded.z, SetContext.of(x)), expected, rtol=1e-4, atol=1e-4
    )


def test_linear_flow_densities_have_mass_1(perturb: Callable[..., LinearFlowEncoding]) -> None:
    encoding = perturb(linear(3, channels=2))
    line = torch.linspace(-40.0, 40.0, 321)
    grid = torch.cartesian_prod(line, line).unsqueeze(1)
    with torch.no_grad():
        densities = encoding._log_densities(grid).exp()
    mass = densities.sum((0, 1)) * (line[1] - line[0]) ** 2
    torch.testing.assert_close(mass, torch.ones(3), rtol=0, atol=2e-2)


@pytest.mark.parametrize("category", range(CATEGORIES))
def test_dequantization_fills_its_cell(category: int, perturb: Callable[..., DequantizationEncoding]) -> None:
    """`q(z|x)` has mass 1, all of it where `z` is decoded as `x`."""

    def alone(inputs: int, outputs: int) -> nn.Module:
        return MLP(inputs, outputs, FEATURES, hidden=8)

    encoding = perturb(DequantizationEncoding(CATEGORIES, 3, 3, FEATURES, alone))
    noise = torch.linspace(-9.0, 9.0, 4001).view(-1, 1, 1)
    x = torch.full((4001, 1), category)
    with torch.no_grad():
        encoded = encoding(x, noise, SetContext.of(x))
    z = encoded.z.flatten()
    assert (z.diff() >= 0).all()
    assert torch.trapezoid(encoded.log_density.exp(), z).item() == pytest.approx(1.0, abs=2e-3)
    # Further out than noise is ever drawn, single precision rounds latents onto the edge of the cell.
    drawn = noise.flatten().abs() < 5.47
    assert (encoding.decode(encoded.z, SetContext.of(x)) == x)[drawn].all()
    assert (encoded.log_posterior == 0).all()


def test_dequantization_reaches_both_ends_in_single_precision() -> None:
    encoding = DequantizationEncoding(CATEGORIES, 1, 3, FEATURES, informed)
    x = torch.tensor([[0, CATEGORIES - 1]])
    noise = torch.tensor([[[-60.0], [60.0]]])
    encoded = encoding(x, noise, SetContext.of(x))
    assert torch.isfinite(encoded.z).all()
    assert torch.isfinite(encoded.log_density).all()
    assert encoded.z[0, 0, 0] < -20.0
    assert encoded.z[0, 1, 0] > 20.0
    assert math.isfinite(encoded.log_weight.item())
