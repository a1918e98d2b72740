"""Properties of a single kind of encoding: its densities, its cells, its decoder."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import AffineTransform, SigmoidTransform, TransformedDistribution, Uniform

from catnf.context import SetContext
from catnf.encodings import DequantizationEncoding, LinearFlowEncoding, MixtureEncoding
from catnf.flows.base import STANDARD_SCALE
from catnf.nets import MLP

CATEGORIES, FEATURES = 5, 4
FREQUENCIES = torch.tensor([0.1, 0.15, 0.2, 0.25, 0.3])
Seeded = Callable[[int], torch.Generator]


def categories(batch: int, elements: int = 4) -> Tensor:
    return torch.randint(CATEGORIES, (batch, elements), generator=torch.Generator().manual_seed(0))


def alone(inputs: int, outputs: int) -> nn.Module:
    return MLP(inputs, outputs, FEATURES, hidden=8)


def test_mixtures_far_apart_are_decoded_exactly(seeded: Seeded) -> None:
    encoding = MixtureEncoding(FREQUENCIES, 2)
    with torch.no_grad():
        encoding.raw_means.mul_(100.0)
    assert torch.pdist(encoding.means).min() > 20.0
    x = categories(200)
    encoded = encoding.encode(x, SetContext.of(x), seeded(0))
    assert torch.equal(encoding.decode(encoded.z, SetContext.of(x)), x)
    torch.testing.assert_close(encoded.log_posterior, torch.zeros(200), rtol=0, atol=1e-6)


def test_mixtures_start_by_frequency_near_the_base_distribution() -> None:
    frequencies = FREQUENCIES[torch.tensor([2, 0, 4, 1, 3])]
    first = MixtureEncoding(frequencies, 2).means.detach()[:, 0]
    assert torch.equal(first.argsort(), frequencies.argsort(descending=True))
    mean = (frequencies * first).sum()
    assert mean.abs() < 0.1
    assert 0.5 < (frequencies * (first - mean).square()).sum() < 1.0
    torch.testing.assert_close(MixtureEncoding(frequencies, 2, spread=4.0).means.detach()[:, 0], 4.0 * first)


def test_linear_flows_far_apart_are_decoded(seeded: Seeded) -> None:
    encoding = LinearFlowEncoding(FREQUENCIES, 3, layers=2, features=FEATURES, hidden=8)
    with torch.no_grad():
        norm = next(iter(encoding.flow)).transforms[0]  # type: ignore[union-attr]
        norm.means.weight.mul_(20.0)
    x = categories(200)
    decoded = encoding.decode(encoding.encode(x, SetContext.of(x), seeded(0)).z, SetContext.of(x))
    assert (decoded == x).float().mean() > 0.99


def test_mixture_densities_and_bayes_rule(perturb: Callable[..., MixtureEncoding], seeded: Seeded) -> None:
    encoding = perturb(MixtureEncoding(FREQUENCIES, 2))
    x = categories(3)
    encoded = encoding.encode(x, SetContext.of(x), seeded(0))
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
    encoding = perturb(LinearFlowEncoding(torch.full((3,), 1 / 3), 2, layers=2, features=FEATURES, hidden=8))
    line = torch.linspace(-40.0, 40.0, 321)
    grid = torch.cartesian_prod(line, line).unsqueeze(1)
    with torch.no_grad():
        densities = encoding._log_densities(grid).exp()
    mass = densities.sum((0, 1)) * (line[1] - line[0]) ** 2
    torch.testing.assert_close(mass, torch.ones(3), rtol=0, atol=2e-2)


@pytest.mark.parametrize("category", range(CATEGORIES))
def test_dequantization_fills_its_cell(category: int, perturb: Callable[..., DequantizationEncoding]) -> None:
    """`q(z|x)` has mass 1, all of it where `z` is decoded as `x`."""
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
    encoding = DequantizationEncoding(CATEGORIES, 1, 3, FEATURES, alone)
    x = torch.tensor([[0, CATEGORIES - 1]])
    noise = torch.tensor([[[-60.0], [60.0]]])
    encoded = encoding(x, noise, SetContext.of(x))
    assert torch.isfinite(encoded.z).all()
    assert torch.isfinite(encoded.log_density).all()
    assert encoded.z[0, 0, 0] < -20.0
    assert encoded.z[0, 1, 0] > 20.0
    assert math.isfinite(encoded.log_weight.item())
