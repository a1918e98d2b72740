"""Encodings whose columns have categories of their own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from catnf.context import SetContext
from catnf.encodings import ColumnMixtureEncoding, Encoding
from catnf.encodings.columns import lookup_columns
from catnf.tasks.table.models import TableModelConfig, build_table_model

SIZES = (2, 5, 3)
KINDS = ("table-mixture", "table-latent", "table-dequantization")
Perturb = Callable[[nn.Module, float], nn.Module]


def frequencies() -> Tensor:
    out = torch.zeros(len(SIZES), max(SIZES))
    for column, size in enumerate(SIZES):
        shares = torch.arange(1.0, size + 1)
        out[column, :size] = shares / shares.sum()
    return out


def encoding(kind: str, perturb: Perturb) -> Encoding:
    config = TableModelConfig(kind=kind, hidden=8, layers=2, mixtures=2)  # type: ignore[arg-type]
    model = build_table_model(config, frequencies())
    perturb(model, 0.2)
    return model.encoding


def rows(count: int, seeded: Callable[[int], torch.Generator]) -> Tensor:
    columns = [torch.randint(size, (count,), generator=seeded(size)) for size in SIZES]
    return torch.stack(columns, dim=1)


@pytest.mark.parametrize("kind", KINDS)
def test_decoders_know_the_categories_of_every_column(
    kind: str, perturb: Perturb, seeded: Callable[[int], torch.Generator]
) -> None:
    made = encoding(kind, perturb)
    z = 4.0 * torch.randn(500, len(SIZES), made.channels, generator=seeded(1))
    ctx = SetContext(500, len(SIZES))
    posterior = made.posterior(z, ctx).exp()
    assert torch.allclose(posterior.sum(-1), torch.ones(500, len(SIZES)), atol=1e-5)
    for column, size in enumerate(SIZES):
        assert not posterior[:, column, size:].any()
        assert int(made.decode(z, ctx)[:, column].max()) < size


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_finite(kind: str, perturb: Perturb, seeded: Callable[[int], torch.Generator]) -> None:
    made, x = encoding(kind, perturb), rows(64, seeded)
    encoded = made.encode(x, SetContext.of(x), seeded(2))
    (encoded.log_weight.sum() + encoded.z.square().sum()).backward()  # type: ignore[no-untyped-call]
    gradients = [p.grad for p in made.parameters() if p.grad is not None]
    assert gradients
    assert all(bool(torch.isfinite(gradient).all()) for gradient in gradients)


def test_bayes_rule_is_that_of_a_column(seeded: Callable[[int], torch.Generator], perturb: Perturb) -> None:
    made = encoding("table-mixture", perturb)
    assert isinstance(made, ColumnMixtureEncoding)
    z = torch.randn(20, len(SIZES), made.channels, generator=seeded(3))
    for column, size in enumerate(SIZES):
        scale = made.log_scales[column, :size].exp()
        noise = (z[:, column, None] - made.means[column, :size]) / scale
        weights = (made.noise.log_prob(noise) - scale.log()).sum(-1).exp() * frequencies()[column, :size]
        expected = weights / weights.sum(-1, keepdim=True)
        found = made.posterior(z, SetContext(20, len(SIZES)))[:, column, :size].exp()
        assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("categories", [3, 40])  # a product with one-hot vectors, and an index
def test_lookup(categories: int, seeded: Callable[[int], torch.Generator]) -> None:
    table = torch.randn(4, categories, 5, generator=seeded(1))
    x = torch.randint(categories, (7, 4), generator=seeded(2))
    expected = torch.stack([table[column, x[:, column]] for column in range(4)], dim=1)
    assert torch.allclose(lookup_columns(table, x), expected, atol=1e-6)
