"""Couplings over places: exact inverse, log-determinant, and what depends on what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from catnf.context import SequenceContext
from catnf.flows import category_rounds
from catnf.flows.anchors import Anchors, SymbolReader
from catnf.flows.base import Logistic
from catnf.flows.category_rounds import CategoryRounds
from catnf.nets import ParallelTransformer
from catnf.nets.channels import CategoryWeights

Seeded = Callable[[int], torch.Generator]
Perturb = Callable[[nn.Module, float], nn.Module]
BATCH, ELEMENTS, CHANNELS, CATEGORIES, HIDDEN, ROUNDS, RUN = 2, 9, 2, 4, 8, 3, 2


@pytest.fixture(params=["reads symbols", "reads latents"])
def flow(request: pytest.FixtureRequest, perturb: Perturb) -> CategoryRounds:
    frequencies = torch.full((CATEGORIES,), 0.25)
    symbols = request.param == "reads symbols"
    reader = SymbolReader(frequencies, torch.randn(CATEGORIES, 3)) if symbols else None
    inputs = 3 if symbols else CHANNELS
    network = ParallelTransformer(inputs, ROUNDS, RUN, HIDDEN, 1, 2, width=HIDDEN, reads=4)
    made = perturb(CategoryRounds(network, CategoryWeights(HIDDEN, frequencies), reader), 0.3)
    return made.double()  # type: ignore[return-value]


def context(batch: int = BATCH, lengths: list[int] | None = None) -> SequenceContext:
    x = torch.zeros(batch, ELEMENTS)
    made = SequenceContext.of(x, None if lengths is None else torch.tensor(lengths))
    generator = torch.Generator().manual_seed(5)
    means = 2.0 * torch.randn(CATEGORIES, CHANNELS, generator=generator).double()
    return replace(made, anchors=Anchors(means, torch.zeros_like(means)))


@pytest.mark.parametrize("lengths", [None, [9, 4]])
@torch.no_grad()
def test_inverse(flow: CategoryRounds, seeded: Seeded, lengths: list[int] | None) -> None:
    ctx = context(lengths=lengths)
    z = ctx.hide(torch.randn(BATCH, ELEMENTS, CHANNELS, generator=seeded(1)).double())
    y, logdet = flow(z, ctx)
    torch.testing.assert_close(flow.inverse(y, ctx), z, atol=1e-7, rtol=1e-7)
    torch.testing.assert_close(flow(z, replace(ctx, stepwise=True)), (y, logdet))
    density = ctx.total(Logistic().log_prob(y)) + logdet
    torch.testing.assert_close(flow.log_density(z, ctx, Logistic()), density)


@torch.no_grad()
def test_writing_in_pieces(flow: CategoryRounds, seeded: Seeded, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many runs at once as there is memory for."""
    y, ctx = torch.randn(BATCH, ELEMENTS, CHANNELS, generator=seeded(3)).double(), context(lengths=[9, 4])
    whole = flow.inverse(y, ctx)
    monkeypatch.setattr(category_rounds, "_NUMBERS_AT_ONCE", 1)
    torch.testing.assert_close(flow.inverse(y, ctx), whole)


def test_places_depend_on_earlier_rounds(flow: CategoryRounds, seeded: Seeded) -> None:
    ctx = context(batch=1)
    z = torch.randn(1, ELEMENTS, CHANNELS, generator=seeded(2)).double()

    def through(values: Tensor) -> Tensor:
        return flow(values, ctx)[0]

    jacobian = torch.autograd.functional.jacobian(through, z)
    whole = jacobian.view(ELEMENTS * CHANNELS, -1)
    torch.testing.assert_close(torch.linalg.slogdet(whole)[1], flow(z, ctx)[1][0])
    depends = jacobian.abs().amax((0, 2, 3, 5)) > 0  # [element, element]
    runs = torch.arange(ELEMENTS) // RUN
    turns = runs % ROUNDS
    in_run = (runs.unsqueeze(1) == runs).tril(-1)
    allowed = (turns.unsqueeze(1) > turns) | in_run
    if flow.reader is not None:  # what a reader tells has no derivatives
        allowed = torch.zeros_like(allowed)
    assert torch.equal(depends, allowed | torch.eye(ELEMENTS, dtype=torch.bool))
