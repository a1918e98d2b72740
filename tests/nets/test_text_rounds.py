"""A transformer over rounds of places: what sees what, and that remembering changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from catnf.context import SequenceContext
from catnf.nets import ParallelTransformer

Perturb = Callable[[nn.Module, float], nn.Module]
BATCH, ELEMENTS, INPUTS = 2, 12, 3
KINDS = {  # rounds, run, reads
    "in order": (4, 1, 3),
    "all at once": (1, 1, 1),
    "one after another": (ELEMENTS, 1, 2),
    "runs in order": (3, 2, 4),
    "runs all at once": (1, 3, 3),
    "more rounds than runs": (9, 2, 16),
}
LENGTHS = pytest.mark.parametrize("lengths", [None, [12, 7]])


class NeverWaits(TorchDispatchMode):
    """Refuses what would make the host wait for a GPU, so that writing can be one CUDA graph."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        assert func.overloadpacket not in (torch.ops.aten.nonzero, torch.ops.aten._local_scalar_dense), func
        indices = args[1] if func.overloadpacket in (torch.ops.aten.index, torch.ops.aten.index_put_) else ()
        assert all(index is None or index.dtype != torch.bool for index in indices), func
        return func(*args, **(kwargs or {}))


@pytest.fixture(params=KINDS)
def network(request: pytest.FixtureRequest, perturb: Perturb) -> ParallelTransformer:
    rounds, run, reads = KINDS[request.param]
    made = ParallelTransformer(INPUTS, rounds, run, 8, 2, 2, width=6, reads=reads)
    return perturb(made, 0.3)  # type: ignore[return-value]


def context(lengths: list[int] | None = None) -> SequenceContext:
    x = torch.zeros(BATCH, ELEMENTS)
    return SequenceContext.of(x, None if lengths is None else torch.tensor(lengths))


def test_elements_see_earlier_rounds_and_their_run_so_far(network: ParallelTransformer) -> None:
    values = torch.randn(BATCH, ELEMENTS, INPUTS)
    runs = torch.arange(ELEMENTS) // network.run
    turns = runs % network.rounds
    states = network(values, context())
    assert states.shape == (BATCH, ELEMENTS, 6)
    for place in range(ELEMENTS):
        other = values.clone()
        other[:, place] += 1.0
        changed = (network(other, context()) - states).abs().amax((0, 2)) > 0
        same = (runs == runs[place]) & (torch.arange(ELEMENTS) > place)
        assert torch.equal(changed, (turns > turns[place]) | same), place


@LENGTHS
@torch.no_grad()
def test_a_round_after_the_other_equals_all_at_once(
    network: ParallelTransformer, lengths: list[int] | None
) -> None:
    ctx = context(lengths)
    values = ctx.hide(torch.randn(BATCH, ELEMENTS, INPUTS))
    every = torch.cat(network.in_rounds(ELEMENTS)).sort().values
    assert torch.equal(every, torch.arange(ELEMENTS // network.run)), "every run has its round"
    with NeverWaits():
        states = written(network, values, ctx)
    torch.testing.assert_close(ctx.hide(states), ctx.hide(network(values, ctx)), atol=1e-5, rtol=1e-4)


def written(network: ParallelTransformer, values: Tensor, ctx: SequenceContext) -> Tensor:
    """States `[batch, elements, width]`, a round after the other."""
    memory, states = network.begin(ctx, values), torch.zeros(*values.shape[:2], network.within.width)
    for runs in network.in_rounds(ctx.elements):
        h = network.advance(memory, runs, None if ctx.mask is None else ctx.mask[:, runs * network.run])
        for index in range(network.run):
            at = runs * network.run + index
            states[:, at] = network.element(memory, runs, h, index)
            network.tell(memory, at, values[:, at])
    return states


@torch.no_grad()
def test_padding_is_not_seen(network: ParallelTransformer) -> None:
    ctx = context([12, 7])
    values = torch.randn(BATCH, ELEMENTS, INPUTS)
    states = network(values, ctx)
    other = values.clone()
    other[1, 7:] = 3.0
    torch.testing.assert_close(network(other, ctx)[1, :7], states[1, :7])
    longer = SequenceContext.of(torch.zeros(BATCH, 16), torch.tensor([12, 7]))
    padded = network(F.pad(values, (0, 0, 0, 4)), longer)
    torch.testing.assert_close(padded[1, :7], states[1, :7])
    alone = network(values[1:, :7], SequenceContext.of(torch.zeros(1, 7)))
    torch.testing.assert_close(alone[0], states[1, :7])


def test_hidden_elements_are_hidden_in_training() -> None:
    network = ParallelTransformer(INPUTS, 2, 2, 8, 1, 2, 6, input_dropout=0.9, dropout=0.2)
    values, generator = torch.randn(1, 400, INPUTS), torch.Generator().manual_seed(0)
    hidden = network.hide_some(values, generator)
    assert float((hidden == 0).all(-1).float().mean()) == pytest.approx(0.9, abs=0.05)
    training = SequenceContext(1, 400, generator=generator)
    assert not torch.equal(network(values, training), network(values, training))
