"""Logistics of categories: densities and their derivatives, and what networks read."""

from __future__ import annotations

import pytest
import torch

from catnf.flows.anchors import Anchors, SymbolReader


@pytest.mark.parametrize(
    ("categories", "channels"),
    [pytest.param(5, 4, id="few"), pytest.param(5, 200, id="channels"), pytest.param(60_000, 2, id="words")],
)
def test_joint_densities_and_their_derivatives(categories: int, channels: int) -> None:
    shapes = ((2, 3, channels), (categories, channels), (categories, channels))
    z, means, log_scales = (torch.randn(*shape, dtype=torch.float64) for shape in shapes)
    inputs = [values.requires_grad_() for values in (2.0 * z, 2.0 * means, 0.5 * log_scales)]
    own = Anchors(inputs[1], inputs[2])
    joint, each = own.joint_log_densities(inputs[0]), own.log_densities(inputs[0])
    assert each.shape == (2, 3, channels, categories)
    torch.testing.assert_close(joint, each.sum(-2))
    weights = torch.randn_like(joint)
    ours = torch.autograd.grad((joint * weights).sum(), inputs)
    theirs = torch.autograd.grad((each.sum(-2) * weights).sum(), inputs)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def test_one_channel_of_many() -> None:
    own = Anchors(torch.randn(5, 3), torch.zeros(5, 3))
    z = torch.randn(2, 4, 3)
    whole = own.log_densities(z)
    torch.testing.assert_close(own.log_densities(z[..., 1:2], 1).squeeze(-2), whole[..., 1, :])
    mixture = own.mixture(torch.zeros(2, 4, 5), 1)
    assert mixture.means.shape == mixture.log_scales.shape == (2, 4, 5)


def test_a_reader_names_the_category() -> None:
    own = Anchors(torch.tensor([[0.0, 0.0], [5.0, 5.0], [-5.0, 5.0]]), torch.zeros(3, 2))
    reader = SymbolReader(torch.tensor([0.5, 0.3, 0.2]), torch.eye(3))
    z = torch.tensor([[[4.6, 5.3], [0.2, -0.1], [-4.0, 4.5]]], requires_grad=True)
    seen = reader(z, own)
    assert torch.equal(seen.argmax(-1), torch.tensor([[1, 0, 2]]))
    assert torch.autograd.grad(seen.sum(), z, allow_unused=True) == (None,)
