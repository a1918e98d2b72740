"""Conditioners, aligned layers and tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.context import SetContext
from catnf.nets import MLP, AlignedLinear, Network, SetTransformer, lookup, select

Seeded = Callable[[int], torch.Generator]
NETWORKS: dict[str, Callable[[], Network]] = {
    "mlp": lambda: MLP(2, 5, hidden=8),
    "mlp, features": lambda: MLP(2, 5, 3, hidden=8),
    "transformer": lambda: SetTransformer(2, 5, hidden=8, layers=2, heads=2),
    "transformer, features": lambda: SetTransformer(2, 5, 3, hidden=8, layers=1, heads=4),
    "transformer, features alone": lambda: SetTransformer(0, 5, 3, hidden=8, layers=1, heads=2),
}
every = pytest.mark.parametrize("name", NETWORKS)


@pytest.fixture
def network(name: str, perturb: Callable[..., Network]) -> Network:
    return perturb(NETWORKS[name]())


def inputs(name: str, elements: int = 4) -> tuple[Tensor, SetContext]:
    generator = torch.Generator().manual_seed(1)
    kept = torch.randn(3, elements, 0 if "alone" in name else 2, generator=generator)
    return kept, SetContext(3, elements, features=torch.randn(3, elements, 3, generator=generator))


@every
def test_networks_are_equivariant(name: str, network: Network, seeded: Seeded) -> None:
    kept, ctx = inputs(name)
    assert ctx.features is not None
    out = network(kept, ctx)
    assert out.shape == (3, 4, 5)
    order = torch.randperm(4, generator=seeded(2))
    moved = network(kept[:, order], ctx.with_features(ctx.features[:, order]))
    torch.testing.assert_close(moved, out[:, order], rtol=1e-4, atol=1e-5)


@every
def test_padding_is_not_seen(name: str, network: Network, pad: Callable[..., Tensor]) -> None:
    kept, ctx = inputs(name)
    plain = network(kept, ctx)
    mask = pad(torch.ones(3, 4, dtype=torch.bool), 3, False)
    for filling in (0.0, 50.0):
        wide = SetContext(3, 7, mask, pad(ctx.features, 3, filling))
        torch.testing.assert_close(network(pad(kept, 3, filling), wide)[:, :4], plain, rtol=1e-4, atol=1e-5)


@every
def test_features_matter_where_they_are_asked_for(name: str, network: Network) -> None:
    kept, ctx = inputs(name)
    assert ctx.features is not None
    other = network(kept, ctx.with_features(ctx.features + 1.0))
    assert torch.allclose(other, network(kept, ctx)) != ("features" in name)


def test_elements_look_at_each_other(perturb: Callable[..., Network]) -> None:
    kept, ctx = inputs("transformer")
    kept.requires_grad_()
    for name, mixes in (("mlp", False), ("transformer", True)):
        (gradient,) = torch.autograd.grad(perturb(NETWORKS[name]())(kept, ctx)[:, 0].square().sum(), kept)
        assert (gradient[:, 1:] != 0).any() == mixes


@every
def test_networks_start_small(name: str) -> None:
    kept, ctx = inputs(name)
    assert NETWORKS[name]()(kept, ctx).abs().max() < 0.2


@every
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_networks_compute_in_the_precision_of_their_weights(
    name: str, network: Network, dtype: torch.dtype
) -> None:
    kept, ctx = inputs(name)
    plain = network(kept, ctx)
    out = network.to(dtype)(kept, ctx)
    assert out.dtype == dtype
    tolerance = 1e-4 if dtype == torch.float64 else 0.1
    torch.testing.assert_close(out.float(), plain, rtol=tolerance, atol=tolerance)


def test_an_example_of_padding_alone_gives_numbers() -> None:
    kept, _ = inputs("transformer")
    ctx = SetContext(3, 4, torch.zeros(3, 4, dtype=torch.bool))
    assert torch.isfinite(NETWORKS["transformer"]()(kept, ctx)).all()


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("inside", "outside"), [(8, 16), (3, 5), (8, 5), (1, 8), (13, 26)])
def test_aligned_layers_are_linear(device: str, bias: bool, inside: int, outside: int) -> None:
    layer = AlignedLinear(inside, outside, bias=bias, device=device)
    plain = nn.Linear(inside, outside, bias=bias, device=device)
    plain.load_state_dict(layer.state_dict())
    x = torch.randn(2, 3, inside, device=device)
    out, expected = layer(x), plain(x)
    torch.testing.assert_close(out, expected)
    ours = torch.autograd.grad(out.square().sum(), list(layer.parameters()))
    theirs = torch.autograd.grad(expected.square().sum(), list(plain.parameters()))
    torch.testing.assert_close(ours, theirs)


SHAPES = st.lists(st.integers(1, 4), max_size=3).map(tuple)
SIZES = st.sampled_from([1, 2, 7, 256, 257, 300])


@given(shape=SHAPES, categories=SIZES, seed=st.integers(0, 1000))
def test_lookup_is_indexing(shape: tuple[int, ...], categories: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn(categories, 3, generator=generator, requires_grad=True)
    x = torch.randint(categories, shape, generator=generator)
    found = lookup(table, x)
    assert found.shape == (*shape, 3)
    assert torch.equal(found, table[x])
    weights = torch.randn(found.shape, generator=generator)
    (ours,) = torch.autograd.grad((found * weights).sum(), table)
    (theirs,) = torch.autograd.grad((F.embedding(x, table) * weights).sum(), table)
    torch.testing.assert_close(ours, theirs)


@given(shape=SHAPES, categories=SIZES, seed=st.integers(0, 1000))
def test_select_is_gathering(shape: tuple[int, ...], categories: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(*shape, categories, generator=generator, requires_grad=True)
    x = torch.randint(categories, shape, generator=generator)
    found = select(values, x)
    expected = values.gather(-1, x.unsqueeze(-1)).squeeze(-1)
    assert found.shape == shape
    assert torch.equal(found, expected)
    (ours,) = torch.autograd.grad(found.sum(), values)
    (theirs,) = torch.autograd.grad(expected.sum(), values)
    assert torch.equal(ours, theirs)


def test_select_of_impossible_categories() -> None:
    """Exact decoders give -inf to all categories but one, which must not spoil the one selected."""
    values = torch.tensor([[0.0, -torch.inf, -torch.inf]])
    assert select(values, torch.tensor([0])).item() == 0.0
