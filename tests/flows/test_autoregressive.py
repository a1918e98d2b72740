"""Autoregressive couplings: exact inverse, log-determinant, causality over time and channels."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from catnf.context import Context, SequenceContext
from catnf.errors import InputError
from catnf.flows.anchors import Anchors, SymbolReader
from catnf.flows.autoregressive import AutoregressiveMixture, ChannelStep, Reversed
from catnf.flows.base import Logistic
from catnf.nets import CausalLSTM, CausalTransformer, ChannelHeads, LinearRecurrence
from catnf.nets.channels import CategoryWeights

BATCH, ELEMENTS, CHANNELS, CATEGORIES, HIDDEN = 2, 5, 3, 4, 8
Seeded = Callable[[int], torch.Generator]
Perturb = Callable[[nn.Module, float], nn.Module]

NETWORKS: dict[str, Callable[[int], nn.Module]] = {
    "one LSTM": lambda inputs: CausalLSTM(inputs, HIDDEN, 1),
    "two layers": lambda inputs: CausalLSTM(inputs, HIDDEN, 2),
    "feed-forward": lambda inputs: CausalLSTM(inputs, HIDDEN, 1, dropout=0.3, feed_forward=2),
    "layers apart": lambda inputs: CausalLSTM(inputs, HIDDEN, 2, input_dropout=0.3, dropout=0.5),
    "transformer": lambda inputs: CausalTransformer(inputs, HIDDEN, 2, 2, dropout=0.5),
    "several read at once": lambda inputs: CausalTransformer(
        inputs, HIDDEN, 1, 2, input_dropout=0.3, reads=3
    ),
    "linear recurrence": lambda inputs: LinearRecurrence(inputs, HIDDEN, 2, dropout=0.5, reads=2),
}


@pytest.fixture(params=["by the host", "by the device"])
def counted(request: pytest.FixtureRequest, device_counts: Callable[[], None]) -> None:
    """Elements of a text are counted in either way."""
    if request.param == "by the device":
        device_counts()


@pytest.fixture(params=[f"{name}{kind}" for name in NETWORKS for kind in ("", ", anchored")])
def flow(request: pytest.FixtureRequest, perturb: Perturb) -> AutoregressiveMixture:
    name, _, anchored = request.param.partition(", ")
    return perturb(build(NETWORKS[name], bool(anchored)), 0.2)  # type: ignore[return-value]


def build(network: Callable[[int], nn.Module], anchored: bool) -> AutoregressiveMixture:
    mixtures = CATEGORIES if anchored else 5
    weights = CategoryWeights(HIDDEN, torch.full((CATEGORIES,), 0.25)) if anchored else None
    heads = ChannelHeads(CHANNELS, HIDDEN, 2 + 3 * mixtures, width=6)
    step = ChannelStep(heads, CHANNELS, mixtures, weights)
    reader = SymbolReader(torch.full((CATEGORIES,), 0.25), torch.randn(CATEGORIES, 2)) if anchored else None
    return AutoregressiveMixture(network(2 if anchored else CHANNELS), step, reader)


def context(lengths: list[int] | None = None, dtype: torch.dtype = torch.float32) -> SequenceContext:
    generator = torch.Generator().manual_seed(5)
    anchors = (
        torch.randn(CATEGORIES, CHANNELS, generator=generator).to(dtype),
        torch.zeros(CATEGORIES, CHANNELS, dtype=dtype) - 0.3,
    )
    x = torch.zeros(BATCH, ELEMENTS)
    made = SequenceContext.of(x, None if lengths is None else torch.tensor(lengths))
    return SequenceContext(made.batch, made.elements, made.mask, anchors=anchors)


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("lengths", [None, [5, 2]])
def test_inverse_with_remembered_states(
    flow: AutoregressiveMixture, seeded: Seeded, lengths: list[int] | None
) -> None:
    ctx = context(lengths)
    z = ctx.hide(2.0 * torch.randn(BATCH, ELEMENTS, CHANNELS, generator=seeded(1)))
    with torch.no_grad():
        y, logdet = flow(z, ctx)
        again, _ = flow(flow.inverse(y, ctx), ctx)
    assert logdet.shape == (BATCH,)
    # Where the flow is flat, many latents have one image in float32; in float64 the latent itself comes back.
    torch.testing.assert_close(again, y, atol=2e-4, rtol=1e-4)
    assert (y - z).abs().max() > 0.1, "the flow does something"
    flow, ctx, z = flow.double(), context(lengths, torch.float64), z.double()
    with torch.no_grad():
        back = flow.inverse(flow(z, ctx)[0], ctx)
    torch.testing.assert_close(back, z, atol=1e-7, rtol=1e-7)


def test_jacobian_is_triangular(flow: AutoregressiveMixture, seeded: Seeded) -> None:
    """Its log-determinant is the claimed one, and no output sees a later latent."""
    ctx = context()
    z = torch.randn(BATCH, ELEMENTS, CHANNELS, generator=seeded(2))

    def one(values: Tensor) -> Tensor:
        whole = torch.cat([values.view(1, ELEMENTS, CHANNELS), z[1:]])
        return flow(whole, ctx)[0][0].flatten()

    jacobian = torch.autograd.functional.jacobian(one, z[0].flatten())
    assert torch.equal(jacobian.triu(1), torch.zeros_like(jacobian))
    assert (jacobian.diagonal() > 0).all()
    torch.testing.assert_close(jacobian.diagonal().log().sum(), flow(z, ctx)[1][0], atol=1e-3, rtol=1e-3)


def test_padding_changes_nothing(flow: AutoregressiveMixture, seeded: Seeded) -> None:
    ctx = context([5, 2])
    z = ctx.hide(torch.randn(BATCH, ELEMENTS, CHANNELS, generator=seeded(3)))
    y, logdet = flow(z, ctx)
    assert torch.equal(y[1, 2:], torch.zeros(3, CHANNELS))
    alone = SequenceContext(1, 2, anchors=ctx.anchors)
    short, own = flow(z[1:, :2], alone)
    torch.testing.assert_close(y[1:, :2], short)
    torch.testing.assert_close(logdet[1:], own)


def test_dropout_only_with_a_generator(flow: AutoregressiveMixture, seeded: Seeded) -> None:
    ctx = context()
    z = torch.randn(BATCH, ELEMENTS, CHANNELS, generator=seeded(4))
    assert torch.equal(flow(z, ctx)[0], flow(z, ctx)[0])
    if flow.network.dropout == 0.0:
        return
    with_dropout = [
        flow(z, SequenceContext(BATCH, ELEMENTS, generator=seeded(seed), anchors=ctx.anchors))[0]
        for seed in (1, 1, 2)
    ]
    assert torch.equal(with_dropout[0], with_dropout[1])
    assert not torch.equal(with_dropout[0], with_dropout[2])
    assert not torch.equal(with_dropout[0], flow(z, ctx)[0])


def test_anchored_and_without_predictions_it_is_the_mixture_of_the_categories() -> None:
    """Then `log p(z)` is that of a language model that draws a category and then its latents."""
    heads = ChannelHeads(CHANNELS, HIDDEN, 2 + 3 * CATEGORIES, width=6)
    weights = CategoryWeights(HIDDEN, torch.full((CATEGORIES,), 0.25))
    step = ChannelStep(heads, CHANNELS, CATEGORIES, weights)
    with torch.no_grad():
        for parameter in heads.parameters():
            parameter.zero_()
    z, h = 2.0 * torch.randn(2, 3, CHANNELS), torch.randn(2, 3, HIDDEN)
    anchors = Anchors(torch.randn(CATEGORIES, CHANNELS), 0.2 * torch.randn(CATEGORIES, CHANNELS))
    y, logdet = step(z, h, Context(2, 3), anchors)
    found = Logistic().log_prob(y).sum((1, 2)) + logdet
    given = anchors.log_densities(z).sum(-2)  # [batch, elements, categories]
    expected = torch.logsumexp(torch.log_softmax(weights(h), dim=-1) + given, dim=-1).sum(1)
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-4)


def test_reversed_channels() -> None:
    z = torch.randn(2, 3, 4)
    ctx = Context(2, 3)
    y, logdet = Reversed()(z, ctx)
    assert torch.equal(y[..., 0], z[..., 3])
    assert torch.equal(Reversed().inverse(y, ctx), z)
    assert torch.equal(logdet, torch.zeros(2))


def test_other_contexts_are_refused(flow: AutoregressiveMixture) -> None:
    with pytest.raises(InputError, match="need a SequenceContext, not a Context"):
        flow(torch.zeros(BATCH, ELEMENTS, CHANNELS), Context(BATCH, ELEMENTS))
