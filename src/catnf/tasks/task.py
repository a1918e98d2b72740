"""The contract between a domain's data and the training engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from catnf.context import Context
from catnf.errors import InputError

Split = Literal["validation", "test"]


class Part(NamedTuple):
    """Examples of one shape, a part of a step's batch.

    Attributes:
        x: examples `[size, elements]`.
        ctx: their context.
        weight: of their mean loss among those of all parts; weights add up to 1.
    """

    x: Tensor
    ctx: Context
    weight: float


@dataclass(frozen=True)
class Measurement:
    """A figure about samples.

    Attributes:
        value: the figure.
        n: of how many samples.
        protocol: what was measured, in words, where several ways are in use.
        share: whether `value` is the share of the `n` for which something holds, and has an interval as such.
    """

    value: float
    n: int
    protocol: str = ""
    share: bool = True


class Measured(NamedTuple):
    """What was found out about samples.

    Attributes:
        values: figures by their names.
        notes: sentences that say what was left out, and why.
    """

    values: dict[str, Measurement]
    notes: list[str]


@dataclass(frozen=True)
class Measuring:
    """How samples are measured."""

    split: Split = "validation"  # the held-out data that they are compared with
    device: torch.device | str = "cpu"  # where networks and large products are computed
    workers: int = 1  # processes; several only where the main module can be imported again
    thorough: bool = True  # also what takes minutes, such as distances from held-out data
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None  # may take minutes

    def stage(self, name: str, total: int) -> Callable[[int], None]:
        """What to call with every further number of things that are done, of `total` in the stage `name`."""
        done = 0

        def advance(count: int) -> None:
            nonlocal done
            done += count
            self.progress(name, done, total)

        return advance


class Amounts(NamedTuple):
    """How much is measured where nobody says.

    Attributes:
        draws: of the importance-weighted bound.
        generated: samples that are drawn.
        reconstructed: examples that go to latents and back.
    """

    draws: int = 100
    generated: int = 10_000
    reconstructed: int = 2048


class Task(ABC):
    """Where batches come from, and how good samples are.

    The engine knows nothing of sets, graphs or text; it sees categories, contexts and named metrics.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The first part of an experiment's name, for instance `sets/shuffling`."""

    @property
    @abstractmethod
    def categories(self) -> int:
        """The number of categories an element can take."""

    @property
    def unit(self) -> str:
        """What likelihoods are divided by: bits are reported per `unit`."""
        return "variable"

    @property
    def pooled(self) -> bool:
        """Whether bits are those of all variables of all examples together, and not a mean over examples."""
        return False

    @property
    def amounts(self) -> Amounts:
        """What `catnf evaluate` measures by default."""
        return Amounts()

    @property
    def optimum(self) -> float | None:
        """The entropy of the data in bits per variable, which no model can beat; `None` where unknown."""
        return None

    def fingerprint(self) -> str:
        """SHA-256 of the training data; empty where examples are drawn anew, or always the same."""
        return ""

    @abstractmethod
    def batch(self, size: int, generator: torch.Generator) -> tuple[Tensor, Context]:
        """Draw `size` training examples `x: [size, elements]` and their context on `generator.device`.

        May be captured in a CUDA graph: shapes depend on `size` alone and nothing waits for the device.
        Tables that have to travel there do so in the first call on a device, before any capture.
        """

    def buckets(self) -> list[float]:
        """Shares of training steps that draw from each bucket of examples; here one bucket holds all."""
        return [1.0]

    def parts(self, size: int, generator: torch.Generator, bucket: int = 0) -> list[Part]:
        """Draw about `size` training examples of a bucket in one or several shapes, as `batch` does."""
        return [Part(*self.batch(size, generator), 1.0)]

    @abstractmethod
    def frequencies(self) -> Tensor:
        """How often each category occurs in training data: `[categories]`, positive, with sum 1."""

    @abstractmethod
    def evaluation(self, split: Split, limit: int | None = None) -> Tensor:
        """The fixed examples of a split, or `limit` of them: `[examples, elements]`, int64, CPU.

        The few must stand for all: by `spread`, or as the first ones where examples are in random order.
        """

    def evaluation_context(self, split: Split, limit: int | None = None) -> Context:
        """What belongs to the examples of `evaluation(split, limit)`, on the CPU."""
        return self.context(self.evaluation(split, limit))

    def extra_bits(self, split: Split, limit: int | None = None) -> dict[str, float]:
        """Bits per variable of what likelihoods leave out, by name, for the examples of `evaluation`."""
        return {}

    @abstractmethod
    def context(self, x: Tensor) -> Context:
        """The context of examples `x: [batch, elements]`, where it follows from them."""

    @abstractmethod
    def sample_context(self, size: int, device: torch.device | str = "cpu") -> Context:
        """A context to draw `size` new examples with."""

    def measured_context(self, split: Split, count: int) -> Context | None:
        """A context to draw samples with whose quality is measured: `count` of them, or fewer.

        `None` where they are drawn like any others.
        """
        return None

    def sample_rows(self, x: Tensor, ctx: Context) -> tuple[list[str], list[list[str]]]:
        """Samples `x: [batch, elements]` as a table for people: names of columns, and rows."""
        return [f"x{i}" for i in range(x.shape[1])], [[str(value) for value in row] for row in x.tolist()]

    @property
    def attempts(self) -> tuple[int, ...]:
        """Numbers of samples for one context of which the best counts, where that is of use; measured too."""
        return ()

    def recovered(self, x: Tensor, back: Tensor, ctx: Context) -> Tensor:
        """How much of examples `x: [batch, elements]` is in what came `back`: `[batch]`, from 0 to 1."""
        same = (back == x).float()
        return ctx.total(same) / ctx.counts(same)

    def valid(self, x: Tensor, ctx: Context | None = None) -> Tensor:
        """Which samples `x: [batch, elements]` are as they should be: `[batch]`, boolean."""
        raise NotImplementedError

    def check(self, x: Tensor) -> None:
        """Raise `InputError` where examples `x: [batch, elements]` cannot belong to this task."""
        if x.dim() != 2:
            raise InputError(f"Examples have shape {tuple(x.shape)}; give a tensor [batch, elements].")

    @abstractmethod
    def sample_metrics(self, x: Tensor, ctx: Context | None = None) -> dict[str, float]:
        """Shares that describe samples `x: [batch, elements]`, for instance `{"validity": 0.98}`.

        Args:
            x: the samples.
            ctx: what they were drawn with; needed where a sample means nothing without it.
        """

    def measure(self, x: Tensor, ctx: Context, how: Measuring) -> Measured:
        """All that is measured about samples `x: [batch, elements]`, by default `sample_metrics`.

        Args:
            x: the samples.
            ctx: what they were drawn with, on the CPU.
            how: what to compare them with, and where to compute.
        """
        shares = self.sample_metrics(x, ctx)
        return Measured({name: Measurement(share, len(x)) for name, share in shares.items()}, [])


def check_evaluation(split: str, limit: int | None) -> None:
    """Raise `InputError` unless `Task.evaluation` can be asked for this split, and so many examples of it."""
    if split not in get_args(Split):
        raise InputError(f"Split {split!r} is unknown; choose validation or test.")
    if limit is not None and limit < 1:
        raise InputError(f"The limit is {limit}, but at least one example is needed.")


def spread(total: int, limit: int | None) -> Tensor:
    """Places of `limit` of `total` examples, evenly spread, or of all where there are no more: `[examples]`.

    Files may have an order, as that of MOSES, where small molecules come first: those are no fair sample.

    >>> spread(10, 4).tolist()
    [0, 2, 5, 7]
    """
    examples = total if limit is None else min(limit, total)
    return torch.arange(examples) * total // max(1, examples)


def positive_frequencies(frequencies: Tensor, floor: float = 1e-8) -> Tensor:
    """`frequencies: [categories]` with sum 1 and no zeros, in float32.

    A prior of zero would make a category impossible to decode and its logarithm infinite.
    """
    raised = frequencies.double().clamp(min=floor)
    return (raised / raised.sum()).float()
