"""Properties that every transform has, whatever its kind."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.functional import jacobian

from catnf.context import Context, SetContext
from catnf.flows import (
    ActNorm,
    AffineCoupling,
    ChannelMask,
    ChessMask,
    ConditionalActNorm,
    FlowStep,
    InvertibleLinear,
    Mask,
    MixtureCoupling,
    Sequential,
    Transform,
    affine_steps,
    mixture_steps,
)
from catnf.flows.autoregressive import Reversed
from catnf.nets import MLP, SetTransformer

BATCH, ELEMENTS, FEATURES, MIXTURES = 2, 4, 3, 3
Net = Callable[[int, int], nn.Module]


def mlp(inputs: int, outputs: int) -> nn.Module:
    return MLP(inputs, outputs, hidden=8)


def transformer(inputs: int, outputs: int) -> nn.Module:
    return SetTransformer(inputs, outputs, hidden=8, layers=1, heads=2)


def informed(inputs: int, outputs: int) -> nn.Module:
    return SetTransformer(inputs, outputs, FEATURES, hidden=8, layers=1, heads=2)


def affine(channels: int, mask: Mask, net: Net) -> AffineCoupling:
    outputs = AffineCoupling.outputs(channels, mask)
    return AffineCoupling(net(mask.conditioner_channels(channels), outputs), channels, mask)


def mixture(channels: int, mask: Mask, net: Net) -> MixtureCoupling:
    outputs = MixtureCoupling.outputs(channels, mask, MIXTURES)
    return MixtureCoupling(net(mask.conditioner_channels(channels), outputs), channels, mask, MIXTURES)


@dataclass(frozen=True)
class Case:
    make: Callable[[], Transform]
    channels: int
    equivariant: bool = True  # permuting the elements permutes the output
    blind: bool = False  # where an element by itself sees nothing but that it is to be changed


CHANNEL = ChannelMask()
CASES: dict[str, Case] = {
    "actnorm": Case(lambda: ActNorm(3), 3),
    "conditional actnorm": Case(lambda: ConditionalActNorm(3, FEATURES, spread=1.0), 3),
    "linear, 2 channels": Case(lambda: InvertibleLinear(2), 2),
    "linear, 5 channels": Case(lambda: InvertibleLinear(5), 5),
    "affine, even channels, mlp": Case(lambda: affine(4, CHANNEL, mlp), 4),
    "affine, odd channels, transformer": Case(lambda: affine(3, CHANNEL, transformer), 3),
    "affine, features": Case(lambda: affine(2, CHANNEL, informed), 2),
    "affine, chess 0, mlp": Case(lambda: affine(1, ChessMask(0), mlp), 1, False, blind=True),
    "affine, chess 1, transformer": Case(lambda: affine(1, ChessMask(1), transformer), 1, False),
    "mixture, even channels, transformer": Case(lambda: mixture(4, CHANNEL, transformer), 4),
    "mixture, odd channels, mlp": Case(lambda: mixture(3, CHANNEL, mlp), 3),
    "mixture, features": Case(lambda: mixture(2, CHANNEL, informed), 2),
    "mixture, chess 0, transformer": Case(lambda: mixture(1, ChessMask(0), transformer), 1, False),
    "mixture, chess 1, mlp": Case(lambda: mixture(1, ChessMask(1), mlp), 1, False, blind=True),
    "step, given norm": Case(
        lambda: FlowStep(affine(2, CHANNEL, mlp), 2, ConditionalActNorm(2, FEATURES, spread=1.0)), 2
    ),
    "step, own norm": Case(lambda: FlowStep(mixture(3, CHANNEL, transformer), 3), 3),
    "affine steps": Case(lambda: affine_steps(3, 3, mlp), 3),
    "affine steps, 1 channel": Case(lambda: affine_steps(1, 2, transformer), 1, False),
    "mixture steps": Case(lambda: mixture_steps(2, 2, MIXTURES, transformer), 2),
    "reversed channels": Case(Reversed, 3),
    "mixture steps, 1 channel": Case(lambda: mixture_steps(1, 3, MIXTURES, mlp), 1, False, blind=True),
}


def named(keep: Callable[[Case], bool] = lambda case: True) -> list[object]:
    return [pytest.param(case, id=name) for name, case in CASES.items() if keep(case)]


def inputs(
    case: Case, elements: int = ELEMENTS, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Context]:
    generator = torch.Generator().manual_seed(1)
    z = torch.randn(BATCH, elements, case.channels, generator=generator, dtype=dtype)
    features = torch.randn(BATCH, elements, FEATURES, generator=generator, dtype=dtype)
    return z, SetContext(BATCH, elements, features=features)


@pytest.fixture
def transform(case: Case, perturb: Callable[..., Transform]) -> Transform:
    return perturb(case.make())


@pytest.mark.parametrize("case", named())
def test_shapes_and_no_identity(case: Case, transform: Transform) -> None:
    z, ctx = inputs(case)
    out, logdet = transform(z, ctx)
    assert out.shape == z.shape
    assert logdet.shape == (BATCH,)
    assert out.dtype == logdet.dtype == torch.float32
    assert (out - z).abs().max() > 0.1
    if list(transform.parameters()):  # what learns nothing may keep volumes
        assert logdet.abs().min() > 1e-3


@pytest.mark.parametrize("case", named())
def test_inverse(case: Case, transform: Transform) -> None:
    z, ctx = inputs(case)
    with torch.no_grad():
        torch.testing.assert_close(transform.inverse(transform(z, ctx)[0], ctx), z, rtol=1e-3, atol=2e-4)
        torch.testing.assert_close(transform(transform.inverse(z, ctx), ctx)[0], z, rtol=1e-3, atol=2e-4)


@pytest.mark.parametrize("case", named())
def test_log_determinant_is_that_of_the_jacobian(case: Case, transform: Transform) -> None:
    transform.double()
    z, ctx = inputs(case, elements=3, dtype=torch.float64)
    logdet = transform(z, ctx)[1]
    for index in range(BATCH):
        assert ctx.features is not None
        one = SetContext(1, 3, features=ctx.features[index : index + 1])
        matrix = jacobian(lambda v, c=one: transform(v.view(1, 3, -1), c)[0].flatten(), z[index].flatten())
        torch.testing.assert_close(
            torch.linalg.slogdet(matrix).logabsdet, logdet[index], rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize("case", named())
def test_padding_changes_nothing(case: Case, transform: Transform, pad: Callable[..., Tensor]) -> None:
    z, ctx = inputs(case)
    real = torch.tensor([[True] * 3 + [False], [True] * 4])
    masked = SetContext(BATCH, ELEMENTS, real, ctx.features)
    hidden = masked.hide(z)
    wide = SetContext(BATCH, ELEMENTS + 2, pad(real, 2, False), pad(ctx.features, 2, 9.0))
    out, logdet = transform(hidden, masked)
    for index, count in enumerate((3, 4)):
        assert ctx.features is not None
        alone = SetContext(1, count, features=ctx.features[index : index + 1, :count])
        plain, plain_logdet = transform(z[index : index + 1, :count], alone)
        torch.testing.assert_close(out[index, :count], plain[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(logdet[index], plain_logdet[0], rtol=1e-4, atol=1e-5)
    padded, padded_logdet = transform(pad(hidden, 2), wide)
    torch.testing.assert_close(padded, pad(out, 2), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(padded_logdet, logdet, rtol=1e-4, atol=1e-5)
    assert (padded[~wide.mask] == 0).all()
    back = transform.inverse(padded, wide)
    assert (back[~wide.mask] == 0).all()
    torch.testing.assert_close(back, pad(hidden, 2), rtol=1e-3, atol=2e-4)


@pytest.mark.parametrize("case", named(lambda case: case.equivariant))
def test_permutation_equivariance(case: Case, transform: Transform) -> None:
    z, ctx = inputs(case)
    order = torch.tensor([2, 0, 3, 1])
    assert ctx.features is not None
    out, logdet = transform(z, ctx)
    moved, moved_logdet = transform(z[:, order], ctx.with_features(ctx.features[:, order]))
    torch.testing.assert_close(moved, out[:, order], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(moved_logdet, logdet, rtol=1e-4, atol=1e-5)
    back = transform.inverse(z[:, order], ctx.with_features(ctx.features[:, order]))
    torch.testing.assert_close(back, transform.inverse(z, ctx)[:, order], rtol=1e-3, atol=2e-4)


@pytest.mark.parametrize("case", named(lambda case: not case.equivariant))
def test_chess_masks_see_the_order(case: Case, transform: Transform) -> None:
    z, ctx = inputs(case)
    order = torch.tensor([1, 2, 3, 0])
    assert not torch.allclose(transform(z[:, order], ctx)[0], transform(z, ctx)[0][:, order], atol=1e-3)


@pytest.mark.parametrize("direction", ["forward", "inverse"])
@pytest.mark.parametrize("case", named())
def test_gradients_reach_every_parameter(case: Case, transform: Transform, direction: str) -> None:
    z, ctx = inputs(case)
    z.requires_grad_()
    weights = torch.randn(z.shape, generator=torch.Generator().manual_seed(2))
    if direction == "forward":
        out, logdet = transform(z, ctx)
        loss = (out * weights).sum() + logdet.sum()
    else:
        loss = (transform.inverse(z, ctx) * weights).sum()
    loss.backward()
    assert z.grad is not None
    assert torch.isfinite(z.grad).all()
    for name, parameter in transform.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        if not (case.blind and name.endswith("input.weight")):
            assert (parameter.grad != 0).any(), name


@pytest.mark.parametrize("case", named())
def test_single_precision_is_enough(case: Case, transform: Transform) -> None:
    z, ctx = inputs(case)
    assert ctx.features is not None
    exact = copy.deepcopy(transform).double()
    double = ctx.with_features(ctx.features.double())
    out, logdet = transform(z, ctx)
    exact_out, exact_logdet = exact(z.double(), double)
    assert exact_out.dtype == torch.float64
    torch.testing.assert_close(out.double(), exact_out, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(logdet.double(), exact_logdet, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", named())
def test_save_and_load(case: Case, transform: Transform) -> None:
    buffer = io.BytesIO()
    torch.save(transform.state_dict(), buffer)
    buffer.seek(0)
    torch.manual_seed(99)
    other = case.make()
    z, ctx = inputs(case)
    if list(transform.parameters()):
        assert not torch.equal(other(z, ctx)[0], transform(z, ctx)[0])
    other.load_state_dict(torch.load(buffer, weights_only=True))
    for ours, theirs in zip(other(z, ctx), transform(z, ctx), strict=True):
        assert torch.equal(ours, theirs)
    assert torch.equal(other.inverse(z, ctx), transform.inverse(z, ctx))


# The C++ compiler takes long, so that it gets one step, which is what engines compile, with all its parts.
@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("affine, even channels, mlp", "aot_eager"),
        ("step, own norm", "aot_eager"),
        pytest.param("step, own norm", "inductor", marks=pytest.mark.slow),
    ],
)
def test_compiled_equals_eager(name: str, backend: str, perturb: Callable[..., Transform]) -> None:
    case = CASES[name]
    transform = perturb(case.make())
    ctx = SetContext(BATCH, ELEMENTS, torch.tensor([[True] * 3 + [False], [True] * 4]))
    z = ctx.hide(inputs(case)[0])
    compiled = copy.deepcopy(transform)
    compiled.compile(dynamic=False, fullgraph=True, backend=backend)
    results = []
    for module in (transform, compiled):
        out, logdet = module(z, ctx)
        gradients = torch.autograd.grad(out.square().sum() + logdet.sum(), list(module.parameters()))
        results.append([out, logdet, *gradients])
    torch.testing.assert_close(results[1], results[0], rtol=1e-3, atol=1e-4)
    inverse = torch.compile(compiled.inverse, dynamic=False, fullgraph=True, backend=backend)
    with torch.no_grad():
        torch.testing.assert_close(inverse(out, ctx), transform.inverse(out, ctx), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("padded", [False, True])
def test_actnorm_standardises(padded: bool, seeded: Callable[[int], torch.Generator]) -> None:
    z = 5.0 + 3.0 * torch.randn(16, 6, 3, generator=seeded(3)) * torch.tensor([0.1, 1.0, 10.0])
    mask = torch.rand(16, 6, generator=seeded(4)) < 0.6 if padded else None
    ctx = SetContext(16, 6, mask)
    out = ActNorm(3).initialize(ctx.hide(z), ctx)
    real = out.reshape(-1, 3) if mask is None else out[mask]
    torch.testing.assert_close(real.mean(0), torch.zeros(3), rtol=0, atol=1e-5)
    torch.testing.assert_close(real.std(0, correction=0), torch.ones(3), rtol=1e-4, atol=0)
    assert mask is None or (out[~mask] == 0).all()


def test_stacks_initialize_every_norm(seeded: Callable[[int], torch.Generator]) -> None:
    steps = mixture_steps(2, 3, MIXTURES, mlp)
    z = 4.0 + 2.0 * torch.randn(32, 5, 2, generator=seeded(3))
    ctx = SetContext(32, 5)
    out = steps.initialize(z, ctx)
    torch.testing.assert_close(out, steps(z, ctx)[0])
    assert not out.requires_grad
    for step in steps:
        assert isinstance(step, Sequential)
        norm, *_ = step
        standard = norm(z, ctx)[0]
        torch.testing.assert_close(standard.mean((0, 1)), torch.zeros(2), rtol=0, atol=1e-5)
        z = step(z, ctx)[0]


def test_constant_data_does_not_break_actnorm() -> None:
    norm = ActNorm(2)
    out = norm.initialize(torch.ones(4, 3, 2), SetContext(4, 3))
    assert torch.isfinite(out).all()


def test_single_channels_alternate_their_masks() -> None:
    couplings = [list(step)[-1] for step in affine_steps(1, 3, mlp)]  # type: ignore[call-overload]
    assert [coupling.mask.parity for coupling in couplings] == [0, 1, 0]
