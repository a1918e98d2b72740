"""All parameters in one buffer."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from catnf.errors import StorageError
from catnf.nets import CausalLSTM
from catnf.nets.network import Network
from catnf.training.flat import FlatParameters


class Inner(Network):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x.to(self.linear.weight.dtype)).float()


class Outer(nn.Module):
    """Parameters inside and outside of networks, interleaved, and one that is not used."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(5))
        self.first = Inner()
        self.unused = nn.Parameter(torch.randn(2, 2))
        self.second = Inner()
        self.shift = nn.Parameter(torch.randn(()))

    def forward(self, x: Tensor) -> Tensor:
        return (self.first(x * self.scale) * self.second(x)).sum() + self.shift.exp()


def test_parameters_keep_their_values_and_become_views() -> None:
    model = Outer()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    flat = FlatParameters(model)
    assert sorted(flat.names) == sorted(before)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name])
    with torch.no_grad():
        flat.values.add_(1.0)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name] + 1.0), f"{name} is not a view of the buffer"


def test_named_and_load_are_a_round_trip() -> None:
    model, other = Outer(), Outer()
    stored = FlatParameters(model).values.detach().clone()
    flat = FlatParameters(other)
    flat.load(stored)
    for (name, expected), parameter in zip(model.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(parameter, expected), name
        assert torch.equal(flat.named(stored)[name], expected), name


def test_a_buffer_of_another_size_is_refused() -> None:
    with pytest.raises(StorageError, match=r"The checkpoint holds 3 numbers where this model has \d+"):
        FlatParameters(Outer()).load(torch.zeros(3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_collected_gradients_are_those_of_autograd(dtype: torch.dtype) -> None:
    model, x = Outer(), torch.randn(7, 5)
    reference = copy.deepcopy(model)
    for module in reference.modules():
        if isinstance(module, Network):
            module.to(dtype)
    reference(x).backward()
    flat = FlatParameters(model, dtype)
    assert flat.values.grad is not None
    flat.values.grad.fill_(float("nan"))  # nothing of an earlier step may stay
    flat.collect(torch.autograd.grad(model(x), flat.parameters, allow_unused=True))
    collected = flat.named(flat.values.grad)
    for name, parameter in reference.named_parameters():
        expected = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        assert torch.equal(collected[name], expected.float()), name
    assert torch.isfinite(flat.values.grad).all(), "padding between parameters has no gradient"


def test_networks_in_bfloat16_follow_the_float32_values() -> None:
    model = Outer()
    flat = FlatParameters(model, torch.bfloat16)
    assert {p.dtype for p in model.first.parameters()} == {torch.bfloat16}
    assert model.scale.dtype == torch.float32
    assert flat.values.dtype == torch.float32
    with torch.no_grad():
        flat.values.mul_(1.001)  # less than bfloat16 resolves: the buffer keeps what the copy cannot
        flat.refresh()
    exact = flat.named(flat.values)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, exact[name].to(parameter.dtype)), name
    assert not torch.equal(exact["first.linear.weight"], model.first.linear.weight.float())


def test_gates_of_recurrent_networks_are_matrices_of_their_own() -> None:
    model = CausalLSTM(inputs=5, hidden=16, layers=2)
    flat = FlatParameters(model)
    gates = [stack for stack in flat.stacks if (stack.rows, stack.columns) == (16, 16)]
    found = [matrix for stack in gates for matrix in stack.view(flat.values.detach())]
    wanted = [model.mix.weight]
    for weights in model.layers[0].all_weights:  # type: ignore[union-attr]
        wanted += [gate for weight in weights[:2] for gate in weight.split(16)]
    assert len(found) == len(wanted) == 1 + 2 * 2 * 4
    assert all(any(torch.equal(one, other) for other in found) for one in wanted)


def test_weights_of_recurrent_layers_are_matrices_too() -> None:
    model = CausalLSTM(inputs=5, hidden=16, layers=2)
    flat = FlatParameters(model)
    marked = {name for name, marks in flat.named(flat.matrices()).items() if bool(marks.all())}
    assert marked == {name for name, parameter in model.named_parameters() if parameter.dim() == 2}
