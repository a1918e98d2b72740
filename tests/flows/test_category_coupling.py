"""Couplings that say how likely categories are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from catnf.context import SetContext
from catnf.encodings import SpacedEncoding
from catnf.flows.base import Logistic
from catnf.flows.category_coupling import CategoryCoupling, categories_at

Seeded = Callable[[int], torch.Generator]
CATEGORIES = 5


def test_quantiles_fall_on_categories_as_often_as_they_are_likely(seeded: Seeded) -> None:
    logits = torch.randn(CATEGORIES, generator=seeded(0))
    logits[1] = -1e4  # never
    quantiles = torch.logit((torch.arange(20_000) + 0.5) / 20_000)
    found = categories_at(quantiles, logits.expand(20_000, -1)).bincount(minlength=CATEGORIES) / 20_000
    torch.testing.assert_close(found, torch.softmax(logits, -1), atol=1e-4, rtol=0.0)


def test_unlikely_categories_lie_outside() -> None:
    logits = torch.tensor([[1e-8, 0.5, 1e-3, 0.5, 1e-16, 1e-16]]).log()
    found = [int(categories_at(torch.tensor([place]), logits)) for place in (-40.0, -1.0, 1.0, 40.0)]
    assert found == [4, 1, 3, 5]


@pytest.mark.parametrize("spread", [1.0, 6.0, 20.0])
def test_categories_survive_and_latents_come_back(seeded: Seeded, spread: float) -> None:
    x = torch.randint(CATEGORIES, (400, 6), generator=seeded(1))
    ctx = SetContext.of(x)
    encoding, coupling = SpacedEncoding(CATEGORIES), CategoryCoupling(CATEGORIES)
    z = encoding.encode(x, ctx, seeded(2)).z
    predicted = spread * torch.randn(400, 6, CATEGORIES, generator=seeded(3))
    y, _ = coupling.change(z, predicted, ctx)
    back = coupling.restore(y, predicted, ctx)
    chance = torch.softmax(predicted, -1).gather(-1, x.unsqueeze(-1))
    possible, likely = (chance > 1e-12).squeeze(-1), chance > 1e-4
    assert torch.equal(encoding.decode(back, ctx)[possible], x[possible])
    torch.testing.assert_close(back[likely], z[likely], atol=2e-2 if spread > 1 else 1e-3, rtol=0.0)
    assert torch.equal(coupling.describe(z).argmax(-1), x), "networks see categories"


def test_the_density_is_that_of_the_categories(seeded: Seeded) -> None:
    x = torch.randint(CATEGORIES, (50, 3), generator=seeded(1))
    ctx = SetContext.of(x)
    encoded = SpacedEncoding(CATEGORIES).encode(x, ctx, seeded(2))
    predicted = torch.randn(50, 3, CATEGORIES, generator=seeded(3))
    y, logdet = CategoryCoupling(CATEGORIES).change(encoded.z, predicted, ctx)
    bound = Logistic().log_prob(y).sum((1, 2)) + logdet + encoded.log_weight
    exact = torch.log_softmax(predicted, -1).gather(-1, x.unsqueeze(-1)).sum((1, 2))
    torch.testing.assert_close(bound, exact, atol=1e-3, rtol=1e-4)
