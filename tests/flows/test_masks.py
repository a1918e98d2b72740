"""Masks split latents into a part that is kept and one that is changed."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from catnf.flows import ChannelMask, ChessMask, Mask
from catnf.flows.masks import chess_mask

MASKS: dict[str, Mask] = {
    "channel": ChannelMask(),
    "chess 0": ChessMask(0),
    "chess 1": ChessMask(1),
    "chess in pairs": ChessMask(0, run=2),
}
LATENTS = st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(2, 5))


def latents(shape: tuple[int, ...], seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def is_changed(mask: Mask, shape: tuple[int, int, int]) -> Tensor:
    """Which latents of a tensor of the given shape the mask lets change."""
    ones = torch.ones(shape)
    new = torch.zeros(*shape[:2], mask.changed_channels(shape[2]))
    return mask.join(ones, new) == 0


@pytest.mark.parametrize("name", MASKS)
@given(shape=LATENTS)
def test_parts_have_the_promised_channels(name: str, shape: tuple[int, int, int]) -> None:
    mask, z = MASKS[name], latents(shape)
    assert mask.kept(z).shape == (*shape[:2], mask.conditioner_channels(shape[2]))
    assert mask.changed(z).shape == (*shape[:2], mask.changed_channels(shape[2]))


@pytest.mark.parametrize("name", MASKS)
@given(shape=LATENTS)
def test_parts_make_the_whole(name: str, shape: tuple[int, int, int]) -> None:
    mask, z = MASKS[name], latents(shape)
    assert torch.equal(mask.join(z, mask.changed(z)), z)
    assert torch.equal(
        mask.select(mask.changed(torch.ones(shape))).sum(), is_changed(mask, shape).float().sum()
    )


@pytest.mark.parametrize("name", MASKS)
@given(shape=LATENTS)
def test_conditioners_see_all_kept_latents_and_no_changed_one(name: str, shape: tuple[int, int, int]) -> None:
    mask = MASKS[name]
    z = latents(shape).requires_grad_()
    # Weights of their own for all inputs, so that no two gradients cancel.
    kept = mask.kept(z)
    (gradient,) = torch.autograd.grad((kept * (1.0 + latents(kept.shape, 1).abs())).sum(), z)
    assert torch.equal(gradient == 0, is_changed(mask, shape))


@given(shape=LATENTS)
def test_the_two_chess_masks_are_complements(shape: tuple[int, int, int]) -> None:
    white, black = (is_changed(MASKS[name], shape) for name in ("chess 0", "chess 1"))
    assert torch.equal(white, ~black)
    assert not white[:, 0].any()


@given(elements=st.integers(2, 33))
def test_chess_masks_of_a_flow_separate_any_two_elements(elements: int) -> None:
    layers = 2 * (elements - 1).bit_length()
    changed = torch.stack(
        [is_changed(chess_mask(index, elements), (1, elements, 1))[0, :, 0] for index in range(layers)], dim=1
    )
    assert changed.any(dim=1).all()
    assert changed.any(dim=0).all(), "no mask is idle"
    same = (changed[:, None] == changed[None, :]).all(dim=-1)
    assert torch.equal(same, torch.eye(elements, dtype=torch.bool))


def test_chess_masks_alternate_where_the_number_of_elements_is_unknown() -> None:
    for index in range(6):
        assert torch.equal(
            is_changed(chess_mask(index), (1, 5, 1)), is_changed(ChessMask(index % 2), (1, 5, 1))
        )


def test_chess_masks_tell_which_elements_they_show() -> None:
    kept = ChessMask(0).kept(torch.zeros(1, 4, 1))
    assert kept[0, :, -1].tolist() == [1.0, 0.0, 1.0, 0.0]


def test_odd_channels_change_the_larger_half() -> None:
    assert ChannelMask().conditioner_channels(5) == 2
    assert ChannelMask().changed_channels(5) == 3
