"""Two toy distributions over sets whose entropy is known exactly.

Set shuffling: each of `N` categories occurs once. Set summation: `N` integers from 1 to `N` have a given
sum. Both are uniform over all ordered tuples that satisfy their rule, so the entropy is the logarithm of
how many there are.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

import torch
from torch import Tensor

from catnf.context import Context, SetContext
from catnf.errors import InputError
from catnf.tasks.task import Split, Task, check_evaluation, positive_frequencies

EVALUATION_EXAMPLES = 32_768
"""Examples in each evaluation split."""

EVALUATION_SEEDS: dict[str, int] = {"validation": 20_201, "test": 20_202}
"""Seeds of the CPU generators that the evaluation splits are drawn with."""


class SetTask(Task):
    """What both set distributions share: unpadded sets of `size` elements with `size` categories."""

    size: int

    @property
    def categories(self) -> int:
        return self.size

    @abstractmethod
    def draw(self, size: int, generator: torch.Generator) -> Tensor:
        """Draw `size` sets on `generator.device`: `[size, elements]`, int64."""

    def batch(self, size: int, generator: torch.Generator) -> tuple[Tensor, SetContext]:
        return self.draw(size, generator), self.sample_context(size, generator.device)

    def evaluation(self, split: Split, limit: int | None = None) -> Tensor:
        """The fixed examples of a split, drawn with `EVALUATION_SEEDS`, or the first `limit` of them."""
        check_evaluation(split, limit)
        # Always the whole split, on the CPU: then neither the limit nor the device changes an example.
        generator = torch.Generator("cpu").manual_seed(EVALUATION_SEEDS[split])
        return self.draw(EVALUATION_EXAMPLES, generator)[:limit]

    def context(self, x: Tensor) -> SetContext:
        return SetContext.of(x)

    def sample_context(self, size: int, device: torch.device | str = "cpu") -> SetContext:
        return SetContext(batch=size, elements=self.size)  # nothing is padded: no tensor, no device

    def check(self, x: Tensor) -> None:
        if x.dim() != 2 or x.shape[0] == 0 or x.shape[1] != self.size:
            raise InputError(f"Examples have shape {tuple(x.shape)}; give a tensor [batch, {self.size}].")

    def sample_metrics(self, x: Tensor, ctx: Context | None = None) -> dict[str, float]:
        """`validity`, the share of rows of `x: [batch, elements]` that follow the rule."""
        self.check(x)
        return {"validity": self.valid(x).double().mean().item()}


@dataclass(frozen=True)
class SetShuffling(SetTask):
    """Permutations of `size` categories, all equally likely.

    >>> round(SetShuffling(16).optimum, 4)
    2.7656
    """

    size: int = 16

    def __post_init__(self) -> None:
        _check_size(self.size)

    @property
    def name(self) -> str:
        return "sets/shuffling"

    @property
    def optimum(self) -> float:
        return math.log2(math.factorial(self.size)) / self.size

    def draw(self, size: int, generator: torch.Generator) -> Tensor:
        return _random_order(size, self.size, generator)

    def frequencies(self) -> Tensor:
        return torch.full((self.size,), 1.0 / self.size)

    def valid(self, x: Tensor, ctx: Context | None = None) -> Tensor:
        return (x.sort(dim=1).values == torch.arange(self.size, device=x.device)).all(dim=1)


@dataclass(frozen=True)
class SetSummation(SetTask):
    """Tuples of `size` integers from 1 to `size` with sum `total`, all equally likely.

    Category `k` stands for the integer `k + 1`.

    Where there are few enough multisets they are listed, and a batch is a draw from that list, each in
    proportion to its number of permutations, with its elements in a random order. Otherwise elements are
    drawn one after another, given the sum that is left for the rest. Both are the same distribution.

    Attributes:
        size: the number of elements, and of categories.
        total: the sum of the integers.
        enumeration_limit: the most multisets to list.

    >>> task = SetSummation(16, 42)
    >>> task.set_count, round(task.optimum, 4)
    (2200, 2.2427)
    """

    size: int = 16
    total: int = 42
    enumeration_limit: int = 200_000
    _tables: dict[torch.device, tuple[Tensor, Tensor]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        _check_size(self.size)
        low, high = self.size, self.size**2
        if not low <= self.total <= high:
            raise InputError(
                f"{self.size} integers from 1 to {self.size} cannot sum to {self.total}; "
                f"choose a total from {low} to {high}."
            )

    @property
    def name(self) -> str:
        return "sets/summation"

    @property
    def optimum(self) -> float:
        return math.log2(self.ordered_count) / self.size

    @property
    def ordered_count(self) -> int:
        """The number of tuples, order counted."""
        return self._ways[self.size][self.total]

    @cached_property
    def set_count(self) -> int:
        """The number of multisets, that is of tuples up to their order."""
        return count_multisets(self.size, self.total)

    @cached_property
    def _ways(self) -> list[list[int]]:
        return count_tuples(self.size, self.total)

    def sets(self) -> Tensor:
        """All multisets in lexicographic order, each ascending: `[sets, elements]` of categories."""
        if self.set_count > self.enumeration_limit:
            raise InputError(
                f"There are {self.set_count:,} sets to list, more than the limit of "
                f"{self.enumeration_limit:,}; raise enumeration_limit if memory allows."
            )
        return list_multisets(self.size, self.total) - 1

    def draw(self, size: int, generator: torch.Generator) -> Tensor:
        device = generator.device
        if device not in self._tables:
            listed = self.set_count <= self.enumeration_limit
            first, second = self._set_tables() if listed else self._sequence_tables()
            self._tables[device] = (first.to(device), second.to(device))
        if self.set_count <= self.enumeration_limit:
            return self._draw_listed(size, generator)
        return self._draw_in_sequence(size, generator)

    def _set_tables(self) -> tuple[Tensor, Tensor]:
        """All multisets `[sets, elements]` and the cumulative distribution over them, `[sets]`, float64."""
        sets = self.sets()
        occurrences = torch.zeros_like(sets).scatter_add_(1, sets, torch.ones_like(sets))
        factorials = list(accumulate(range(1, self.size + 1), lambda done, n: done * n, initial=1))
        permutations = [
            factorials[self.size] // math.prod([factorials[count] for count in row])
            for row in occurrences.tolist()
        ]
        # Sums of exact integers, divided once: every entry is the nearest float64 to the true value.
        cumulative = [count / self.ordered_count for count in accumulate(permutations)]
        return sets, torch.tensor(cumulative, dtype=torch.float64)

    def _draw_listed(self, size: int, generator: torch.Generator) -> Tensor:
        sets, cumulative = self._tables[generator.device]
        uniform = torch.rand(size, dtype=torch.float64, device=generator.device, generator=generator)
        chosen = sets[torch.searchsorted(cumulative, uniform, right=True)]
        return chosen.gather(1, _random_order(size, self.size, generator))

    def _sequence_tables(self) -> tuple[Tensor, Tensor]:
        """Logarithms of the numbers of tuples, `[elements + 1, size + total + 1]`, and the integers `[size]`.

        Column `size + s` belongs to the sum `s`, so that negative sums have columns too, all impossible.
        """
        impossible = [-math.inf] * self.size
        rows = [impossible + [math.log(n) if n else -math.inf for n in row] for row in self._ways]
        return torch.tensor(rows, dtype=torch.float64), torch.arange(1, self.size + 1)

    def _draw_in_sequence(self, size: int, generator: torch.Generator) -> Tensor:
        log_ways, integers = self._tables[generator.device]
        left = torch.full((size, 1), self.total, device=generator.device)
        race = torch.empty(size, self.size, dtype=torch.float64, device=generator.device)
        drawn = []
        for elements_after in reversed(range(self.size)):
            after = log_ways[elements_after][left - integers + self.size]
            weights = (after - log_ways[elements_after + 1][left + self.size]).exp()
            # The first arrival among exponential clocks of these rates; unlike an inverse cumulative sum,
            # it cannot pick a value of weight zero through rounding.
            choice = (race.exponential_(generator=generator) / weights).argmin(dim=1, keepdim=True)
            left = left - choice - 1
            drawn.append(choice)
        return torch.cat(drawn, dim=1)

    def frequencies(self) -> Tensor:
        """Exact shares of the categories; those that cannot occur get a tiny one."""
        rest = self._ways[self.size - 1]
        shares = [
            rest[self.total - integer] / self.ordered_count if integer <= self.total else 0.0
            for integer in range(1, self.size + 1)
        ]
        return positive_frequencies(torch.tensor(shares, dtype=torch.float64))

    def sample_rows(self, x: Tensor, ctx: Context) -> tuple[list[str], list[list[str]]]:
        """The integers themselves, whose sum people can check."""
        return super().sample_rows(x + 1, ctx)

    def valid(self, x: Tensor, ctx: Context | None = None) -> Tensor:
        inside = ((x >= 0) & (x < self.size)).all(dim=1)
        return inside & ((x + 1).sum(dim=1) == self.total)


def count_tuples(size: int, total: int) -> list[list[int]]:
    """How many tuples of `n` integers from 1 to `size` sum to `s <= total`, exactly: `[n][s]`."""
    ways = [[1] + [0] * total]
    for _ in range(size):
        before, row = ways[-1], [0]
        for s in range(1, total + 1):
            # The `size` sums before `s` lead to it; going from s - 1 to s, one enters and one leaves.
            leaving = before[s - 1 - size] if s > size else 0
            row.append(row[-1] + before[s - 1] - leaving)
        ways.append(row)
    return ways


def count_multisets(size: int, total: int) -> int:
    """How many multisets of `size` integers from 1 to `size` sum to `total`, exactly.

    Less one from every integer they are partitions of `total - size` that fit a box of `size` by
    `size - 1`, counted by the Gaussian binomial `prod_i (1 - q^(size - 1 + i)) / (1 - q^i)`.
    """
    degree = total - size
    series = [1] + [0] * degree
    for i in range(1, size + 1):
        factor = size - 1 + i
        for power in range(degree, factor - 1, -1):
            series[power] -= series[power - factor]
        for power in range(i, degree + 1):
            series[power] += series[power - i]
    return series[degree]


def list_multisets(size: int, total: int) -> Tensor:
    """All ascending tuples of `size` integers from 1 to `size` with sum `total`: `[sets, size]`.

    Grows all tuples by an element at a time, by none that has no completion, so there are never more
    rows than in the result.
    """
    rows = torch.empty(1, 0, dtype=torch.int64)
    last, left = torch.ones(1, dtype=torch.int64), torch.tensor([total])
    for elements_after in reversed(range(size)):
        # The elements after are at least as large as this one, and at most `size`.
        low = torch.maximum(last, left - size * elements_after)
        choices = left // (elements_after + 1) - low + 1
        parent = torch.repeat_interleave(choices)
        first = choices.cumsum(0) - choices
        last = low[parent] + torch.arange(len(parent)) - first[parent]
        left = left[parent] - last
        rows = torch.cat([rows[parent], last[:, None]], dim=1)
    return rows


def _random_order(rows: int, size: int, generator: torch.Generator) -> Tensor:
    """Independent uniform permutations of `0 ... size - 1`: `[rows, size]`."""
    # In float32 equal keys, which sorting would not order at random, are no longer rare enough.
    keys = torch.rand(rows, size, dtype=torch.float64, device=generator.device, generator=generator)
    return keys.argsort(dim=1)


def _check_size(size: int) -> None:
    if size < 1:
        raise InputError(f"The size of a set is {size}, but at least one element is needed.")
