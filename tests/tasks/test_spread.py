"""Which examples of a split a limited evaluation takes."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from catnf.tasks.task import spread

COUNTS = st.integers(1, 3000)


@given(COUNTS, COUNTS)
def test_places_are_spread_evenly_and_none_comes_twice(total: int, limit: int) -> None:
    places = spread(total, limit)
    assert len(places) == min(total, limit)
    assert 0 <= int(places[0]) <= int(places[-1]) < total
    gaps = torch.diff(places, append=torch.tensor([total])).tolist()  # the first place is 0
    assert min(gaps) >= 1
    assert max(gaps) - min(gaps) <= 1


@given(COUNTS, st.integers(0, 10))
def test_a_limit_that_is_not_reached_changes_nothing(total: int, more: int) -> None:
    whole = torch.arange(total)
    assert torch.equal(spread(total, None), whole)
    assert torch.equal(spread(total, total + more), whole)


@given(st.integers(40, 500), st.integers(4, 40))
def test_a_split_in_order_of_size_keeps_its_mean(total: int, limit: int) -> None:
    sizes = torch.arange(total).double()
    assert abs(float(sizes[spread(total, limit)].mean() - sizes.mean())) <= total / limit


def test_large_splits_do_not_overflow() -> None:
    assert int(spread(2**31, 2**20)[-1]) == 2**31 - 2**11


def test_nothing_of_nothing() -> None:
    assert spread(0, 5).shape == (0,)
