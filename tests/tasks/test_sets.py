"""Set tasks against enumeration by brute force."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import pytest
import torch
from torch import Tensor

from catnf.context import SetContext
from catnf.errors import InputError
from catnf.tasks.sets.data import EVALUATION_EXAMPLES, SetShuffling, SetSummation, SetTask
from catnf.tasks.task import positive_frequencies

SMALL = [(1, 1), (2, 3), (3, 6), (4, 4), (4, 7), (4, 10), (4, 15), (5, 11), (5, 25)]
TASKS = {
    "shuffling": SetShuffling(5),
    "summation listed": SetSummation(5, 12),
    "summation in sequence": SetSummation(5, 12, enumeration_limit=0),
}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def brute_force(size: int, total: int) -> list[tuple[int, ...]]:
    """All ordered tuples of categories whose integers have the given sum."""
    return [x for x in product(range(size), repeat=size) if sum(x) + size == total]


def check_uniform(drawn: Tensor, outcomes: list[tuple[int, ...]]) -> None:
    """Pearson's statistic of equal shares is within five standard deviations of its mean."""
    counts = Counter(map(tuple, drawn.tolist()))
    assert set(counts) <= set(outcomes)
    expected = len(drawn) / len(outcomes)
    statistic = sum((counts[outcome] - expected) ** 2 / expected for outcome in outcomes)
    freedom = len(outcomes) - 1
    assert abs(statistic - freedom) <= 5 * math.sqrt(2 * freedom)


def test_optima_of_the_paper() -> None:
    assert round(SetShuffling(16).optimum, 4) == 2.7656
    assert round(SetSummation(16, 42).optimum, 4) == 2.2427
    assert SetSummation(16, 42).ordered_count == 63_379_974_736


def test_sets_of_the_paper() -> None:
    task = SetSummation(16, 42)
    sets = task.sets()
    assert task.set_count == 2200
    assert sets.shape == (2200, 16)
    assert task.valid(sets).all()
    assert (sets.diff(dim=1) >= 0).all()
    assert len(sets.unique(dim=0)) == 2200
    example = torch.tensor([1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 6, 8]) - 1
    assert (sets == example).all(dim=1).sum() == 1


@pytest.mark.parametrize(("size", "total"), SMALL)
def test_summation_against_brute_force(size: int, total: int) -> None:
    task, tuples = SetSummation(size, total), brute_force(size, total)
    multisets = sorted({tuple(sorted(x)) for x in tuples})
    assert task.ordered_count == len(tuples)
    assert task.optimum == math.log2(len(tuples)) / size
    assert task.set_count == len(multisets)
    assert task.sets().tolist() == [list(x) for x in multisets]
    counts = torch.bincount(torch.tensor(tuples).flatten(), minlength=size)
    torch.testing.assert_close(task.frequencies(), (counts / counts.sum()).float(), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("limit", [200_000, 0], ids=["listed", "in sequence"])
@pytest.mark.parametrize(("size", "total"), SMALL)
def test_summation_draws_uniformly(size: int, total: int, limit: int) -> None:
    task = SetSummation(size, total, enumeration_limit=limit)
    check_uniform(task.draw(20_000, seeded()), brute_force(size, total))


@pytest.mark.parametrize("size", [1, 2, 4])
def test_shuffling_draws_uniformly(size: int) -> None:
    permutations = [x for x in product(range(size), repeat=size) if len(set(x)) == size]
    check_uniform(SetShuffling(size).draw(20_000, seeded()), permutations)


@pytest.mark.parametrize("limit", [200_000, 0], ids=["listed", "in sequence"])
def test_draws_have_the_exact_frequencies(limit: int) -> None:
    task = SetSummation(16, 42, enumeration_limit=limit)
    drawn = task.draw(40_000, seeded(1))
    assert task.valid(drawn).all()
    for place in (0, 7, 15):  # every position alike, although a sequence is drawn from the left
        shares = torch.bincount(drawn[:, place], minlength=16) / len(drawn)
        torch.testing.assert_close(shares, task.frequencies(), atol=0.012, rtol=0.0)


def test_summation_with_too_many_sets_to_list() -> None:
    task = SetSummation(60, 1000)
    assert task.set_count > 10**27
    x, _ = task.batch(200, seeded())
    assert task.sample_metrics(x) == {"validity": 1.0}
    squares = torch.arange(60.0) ** 2
    torch.testing.assert_close(squares[x].mean(), squares @ task.frequencies(), rtol=0.05, atol=0.0)
    with pytest.raises(InputError, match="more than the limit"):
        task.sets()


def test_frequencies_are_positive_where_a_category_never_occurs() -> None:
    frequencies = SetSummation(4, 5).frequencies()
    assert (frequencies > 0).all()
    assert frequencies[2:].max() < 1e-6
    torch.testing.assert_close(frequencies, torch.tensor([0.75, 0.25, 0.0, 0.0]), atol=1e-6, rtol=0.0)
    assert torch.equal(SetShuffling(4).frequencies(), torch.full((4,), 0.25))
    floored = positive_frequencies(torch.tensor([1.0, 0.0]))
    assert floored[1] > 0
    assert floored.sum() == 1


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())
def test_batches(task: SetTask) -> None:
    x, context = task.batch(64, seeded())
    assert x.shape == (64, 5)
    assert x.dtype == torch.int64
    assert context == task.context(x) == task.sample_context(64) == SetContext(batch=64, elements=5)
    assert task.sample_metrics(x) == {"validity": 1.0}
    assert torch.equal(x, task.batch(64, seeded())[0])
    assert not torch.equal(x, task.batch(64, seeded(1))[0])
    assert task.categories == 5


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())
def test_evaluation_sets_are_fixed(task: SetTask) -> None:
    state = torch.get_rng_state()
    validation, test = task.evaluation("validation"), task.evaluation("test")
    assert validation.shape == test.shape == (EVALUATION_EXAMPLES, 5)
    assert validation.dtype == torch.int64
    assert task.valid(validation).all()
    assert task.valid(test).all()
    assert not torch.equal(validation, test)
    task.batch(7, seeded())
    assert torch.equal(task.evaluation("test", limit=10), test[:10])
    assert torch.equal(state, torch.get_rng_state())


def test_evaluation_sets_stay_what_they_are() -> None:
    # Published results were measured on these.
    assert SetShuffling().evaluation("test", limit=1).tolist() == [
        [15, 1, 13, 2, 4, 0, 3, 11, 10, 6, 9, 14, 5, 8, 7, 12]
    ]
    assert SetSummation().evaluation("test", limit=1).tolist() == [
        [8, 5, 0, 1, 1, 3, 0, 0, 1, 0, 1, 0, 0, 1, 4, 1]
    ]


def test_validity_counts_rows() -> None:
    shuffled = torch.tensor([[0, 1, 2], [2, 0, 1], [0, 0, 3], [1, 1, 1]])
    assert SetShuffling(3).sample_metrics(shuffled) == {"validity": 0.5}
    summed = torch.tensor([[0, 1, 2], [1, 1, 1], [0, 0, 2], [-1, 2, 2]])
    assert SetSummation(3, 6).sample_metrics(summed) == {"validity": 0.5}


def test_names() -> None:
    assert SetShuffling().name == "sets/shuffling"
    assert SetSummation().name == "sets/summation"
    assert SetSummation(4, 9) == SetSummation(4, 9)
    assert repr(SetSummation(4, 9)).startswith("SetSummation(size=4, total=9")


def test_errors() -> None:
    with pytest.raises(InputError, match="size of a set is 0"):
        SetShuffling(0)
    with pytest.raises(InputError, match="size of a set is -1"):
        SetSummation(-1, 3)
    for total in (3, 17):
        with pytest.raises(InputError, match=f"cannot sum to {total}; choose a total from 4 to 16"):
            SetSummation(4, total)
    with pytest.raises(InputError, match="Split 'train' is unknown"):
        SetShuffling(4).evaluation("train")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="limit is 0"):
        SetShuffling(4).evaluation("test", limit=0)
    with pytest.raises(InputError, match=r"give a tensor \[batch, 4\]"):
        SetShuffling(4).sample_metrics(torch.zeros(2, 3, dtype=torch.int64))


def test_samples_of_summation_are_shown_as_integers() -> None:
    task = SetSummation(5, 12)
    x = task.evaluation("test", 20)
    header, rows = task.sample_rows(x, task.context(x))
    assert len(header) == 5
    assert all(sum(map(int, row)) == 12 for row in rows)
