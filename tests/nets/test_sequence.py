"""Networks over texts: causality, remembered states, places, channels in their order."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from catnf.context import SequenceContext
from catnf.errors import InputError
from catnf.nets import (
    BidirectionalLSTM,
    CausalLSTM,
    CausalTransformer,
    ChannelHeads,
    LinearRecurrence,
)
from catnf.nets.linear_recurrence import RememberingLayer
from catnf.nets.sequence import PLACES, Causal, drop, normalized, places
from catnf.repetition import Index

Perturb = Callable[[nn.Module, float], nn.Module]


def _refining(network: CausalLSTM) -> CausalLSTM:
    """The feed-forward layer adds nothing at first; here it does."""
    nn.init.normal_(network.narrow.weight, std=0.3)
    return network


def _looking_back(network: LinearRecurrence) -> LinearRecurrence:
    """Gates and offers are made of an element alone at first; here of those before it too."""
    for layer in network.layers:
        assert isinstance(layer, RememberingLayer)
        nn.init.normal_(layer.window, std=0.3)
    return network


MAKERS: dict[str, Callable[[], Causal]] = {
    "lstm": lambda: CausalLSTM(3, 8, 2),
    "feed-forward": lambda: _refining(CausalLSTM(3, 8, 2, feed_forward=3)),
    "transformer": lambda: CausalTransformer(3, 8, 2, 2),
    "four read at once": lambda: CausalTransformer(3, 8, 2, 2, reads=4),
    "linear recurrence": lambda: _looking_back(LinearRecurrence(3, 8, 2)),
    "linear recurrence with four read at once": lambda: _looking_back(LinearRecurrence(3, 8, 2, reads=4)),
    "more read than there are": lambda: CausalTransformer(3, 8, 2, 2, reads=9),
}


@pytest.fixture(params=MAKERS)
def network(request: pytest.FixtureRequest) -> Causal:
    return MAKERS[request.param]()


def test_states_depend_on_earlier_elements_alone(network: Causal) -> None:
    values = torch.randn(2, 6, 3)
    ctx = SequenceContext.of(values[..., 0])
    states = network(values, ctx)
    assert states.shape == (2, 6, 8)
    values[:, 3] += 1.0
    changed = (network(values, ctx) - states).abs().amax((0, 2))
    assert (changed[:4] == 0).all(), "an element does not see itself"
    assert (changed[4:] > 0).all()


@pytest.mark.parametrize("counting", [int, torch.tensor])
@pytest.mark.parametrize("lengths", [None, [6, 4]])
@torch.no_grad()
def test_one_after_another_equals_all_at_once(
    network: Causal, lengths: list[int] | None, counting: Callable[[int], Index]
) -> None:
    values = torch.randn(2, 6, 3)
    ctx = SequenceContext.of(values[..., 0], None if lengths is None else torch.tensor(lengths))
    whole = network(values, ctx)
    memory, now, states = network.begin(ctx, values), torch.zeros(2, 1, 3), []
    for index in range(6):
        states.append(network.advance(now, memory, counting(index)))
        now = values[:, index : index + 1]
    torch.testing.assert_close(torch.cat(states, dim=1), whole, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("lengths", [None, [6, 4]])
@torch.no_grad()
def test_a_beginning_knows_where_texts_end(network: Causal, lengths: list[int] | None) -> None:
    values = torch.randn(2, 6, 3)
    ctx = SequenceContext.of(values[..., 0], None if lengths is None else torch.tensor(lengths))
    start = network(values[:, :3], ctx.beginning(3, values))
    torch.testing.assert_close(start, network(values, ctx)[:, :3], atol=1e-5, rtol=1e-4)


def test_places_count_from_both_ends() -> None:
    x = torch.zeros(2, 7)
    whole, padded = places(SequenceContext.of(x), x), places(SequenceContext.of(x, torch.tensor([7, 4])), x)
    assert whole.shape == (1, 7, PLACES)
    assert padded.shape == (2, 7, PLACES)
    torch.testing.assert_close(padded[:1], whole)
    assert not torch.allclose(padded[1, :4], whole[0, :4]), "its end is elsewhere"
    assert torch.cdist(whole[0], whole[0]).fill_diagonal_(9.0).min() > 0.3, "all differ"


def test_what_is_dropped() -> None:
    values = torch.ones(1000, 4)
    generator = torch.Generator().manual_seed(0)
    dropped = drop(values, 0.3, generator)
    assert float((dropped == 0).float().mean()) == pytest.approx(0.3, abs=0.03)
    assert float(dropped.mean()) == pytest.approx(1.0, abs=0.05)
    assert drop(values, 0.3, None) is values
    with pytest.raises(InputError, match=r"dropout is 1\.0; give a share"):
        CausalLSTM(3, 8, dropout=1.0)


def _over_time(network: CausalLSTM) -> list[Tensor]:
    """The weights from one element to the next, of every layer."""
    return [layer[1] for layer in network.lstm.all_weights]


def test_numbers_dropped_between_layers_of_an_lstm() -> None:
    torch.manual_seed(0)
    network = CausalLSTM(3, 8, 3, dropout=0.5)
    h, generator = torch.randn(2, 6, 8), torch.Generator().manual_seed(1)
    out = network.run(h, SequenceContext(2, 6, generator=generator))
    generator.manual_seed(1)
    before = normalized(h)
    for number, layer in enumerate(network.lstm.all_weights):
        if number:
            before = before * drop(torch.ones(1, 8), 0.5, generator)
        alone = nn.LSTM(8, 8, batch_first=True)
        alone.load_state_dict(dict(zip(alone.state_dict(), layer, strict=True)))
        before, _ = alone(before)
    torch.testing.assert_close(out, normalized(before))
    assert not torch.equal(out, network.run(h, SequenceContext(2, 6)))


@pytest.mark.parametrize("layers", [1, 2])
def test_dropped_weights_of_an_lstm(layers: int) -> None:
    torch.manual_seed(0)
    network = CausalLSTM(3, 8, layers, weight_dropout=0.5)
    values, generator = torch.randn(2, 6, 3), torch.Generator().manual_seed(1)
    ctx = SequenceContext(2, 6, generator=generator)
    out = network(values, ctx)
    # The same numbers, drawn once more, make a network of the weights that are left.
    generator.manual_seed(1)
    thinned = copy.deepcopy(network)
    with torch.no_grad():
        for onwards in _over_time(thinned):
            onwards.copy_(drop(onwards, 0.5, generator))
    torch.testing.assert_close(thinned(values, SequenceContext(2, 6)), out)
    gradients = torch.autograd.grad(out[..., 0].sum(), _over_time(network))
    left = [weights != 0 for weights in _over_time(thinned)]
    assert all(bool((g[~kept] == 0).all()) and bool(g.any()) for g, kept in zip(gradients, left, strict=True))
    with pytest.raises(InputError, match=r"weight_dropout is -0\.1; give a share"):
        CausalLSTM(3, 8, weight_dropout=-0.1)


def test_both_ways(perturb: Perturb) -> None:
    network = perturb(BidirectionalLSTM(3, 5, hidden=8), 0.3)
    values = torch.randn(2, 6, 3)
    ctx = SequenceContext.of(values[..., 0], torch.tensor([6, 4]))
    values = ctx.hide(values)
    out = network(values, ctx)
    assert out.shape == (2, 6, 5)
    other = values.clone()
    other[0, 3] += 1.0
    changed = (network(other, ctx) - out).abs().amax(2)
    assert (changed[0] > 0).all()
    assert (changed[1] == 0).all()
    other = values.clone()
    other[1, 5] = 3.0  # padding
    torch.testing.assert_close(network(other, ctx)[1, :4], out[1, :4])
    longer = network(
        F.pad(values, (0, 0, 0, 5)), SequenceContext.of(torch.zeros(2, 11), torch.tensor([6, 4]))
    )
    torch.testing.assert_close(longer[0, :6], out[0])
    torch.testing.assert_close(longer[1, :4], out[1, :4])
    torch.testing.assert_close(network(values[1:, :4], SequenceContext.of(torch.zeros(1, 4)))[0], out[1, :4])


def test_channels_see_those_before_them(perturb: Perturb) -> None:
    heads = perturb(ChannelHeads(3, 4, 5, width=6), 0.3)
    z, h = torch.randn(2, 4, 3), torch.randn(2, 4, 4)
    out = heads(z, h).unflatten(-1, (3, 5))
    assert out.shape == (2, 4, 3, 5)
    for channel in range(3):
        torch.testing.assert_close(heads.channel(z, heads.project(h), channel), out[..., channel, :])
        other = z.clone()
        other[..., channel] += 1.0
        changed = (heads(other, h).unflatten(-1, (3, 5)) - out).abs().amax((0, 1, 3))
        assert (changed[: channel + 1] == 0).all()
        assert (changed[channel + 1 :] > 0).all()


def test_states_of_an_lstm_are_normalized_in_any_precision() -> None:
    torch.manual_seed(0)
    network, values = CausalLSTM(3, 32, 2), torch.randn(2, 6, 3)
    out = network(values, SequenceContext(2, 6))
    torch.testing.assert_close(out.square().mean(-1), torch.ones(2, 6), atol=1e-2, rtol=0.0)
    low = network.bfloat16()(values, SequenceContext(2, 6))
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.float(), out, atol=0.1, rtol=0.0)
