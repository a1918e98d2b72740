"""What every part of a model may look at besides the latents themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from catnf.errors import InputError
from catnf.pairs import pair_count, pair_layout


@dataclass(frozen=True)
class Context:
    """Shape, padding and side information of one batch.

    Padding is handled by the methods below; besides them only attention, models that choose which element
    comes next, and checks of input look at the mask. Latents at padded elements are always zero; transforms
    keep them so with `hide`.

    Attributes:
        batch: number of examples.
        elements: number of elements an example has, padding included.
        mask: `[batch, elements]`, true where an element is real; `None` when nothing is padded.
        features: `[batch, elements, features]`, or with 1 in place of `batch`: extra inputs of the
            conditioners, for instance an embedding of the categories while encoding them.
        pairwise: whether the work on an example grows with the pairs of its elements.
    """

    pairwise: ClassVar[bool] = True

    batch: int
    elements: int
    mask: Tensor | None = None
    features: Tensor | None = None

    def hide(self, values: Tensor) -> Tensor:
        """Zero the padded elements of `values: [batch, elements, ...]`."""
        if self.mask is None:
            return values
        shape = (self.batch, self.elements) + (1,) * (values.dim() - 2)
        return torch.where(self.mask.view(shape), values, torch.zeros_like(values))

    def total(self, values: Tensor) -> Tensor:
        """Sum `values: [batch, elements, ...]` over everything but the batch, padding left out: `[batch]`."""
        return self.hide(values).flatten(1).sum(1)

    def counts(self, like: Tensor) -> Tensor:
        """The number of real elements of every example, `[batch]`, with device and dtype of `like`."""
        if self.mask is None:
            return like.new_full((self.batch,), float(self.elements))
        return self.mask.sum(1).to(like.dtype)

    def real(self, like: Tensor) -> Tensor:
        """The mask, `[batch, elements]`, also where nothing is padded, on the device of `like`."""
        if self.mask is None:
            return torch.ones(self.batch, self.elements, dtype=torch.bool, device=like.device)
        return self.mask

    def per_variable(self, like: Tensor) -> Tensor:
        """What nats of the examples are multiplied by, so that their mean is one per variable: `[batch]`."""
        return 1.0 / self.counts(like).clamp(min=1.0)

    def sizes(self, like: Tensor) -> Tensor:
        """The size of every example as an input of networks, about 1: `[batch, elements, 1]`."""
        return (self.counts(like) / 24.0).view(-1, 1, 1).expand(-1, self.elements, 1)

    def check(self) -> None:
        """Raise `InputError` where what was given cannot be; waits for the device, so not for a step."""

    def pairs(self) -> Context:
        """The context whose elements are the unordered pairs of elements, in the order of `catnf.pairs`."""
        count = pair_count(self.elements)
        if self.mask is None:
            return Context(self.batch, count)
        first, second, _ = pair_layout(self.elements, self.mask.device)
        return Context(self.batch, count, self.mask[:, first] & self.mask[:, second])

    def with_features(self, features: Tensor) -> Self:
        """The same context with other conditioner inputs, `features: [batch, elements, features]`."""
        return replace(self, features=features)

    def repeat(self, times: int) -> Self:
        """Every example `times` times in a row: a context of `batch * times` examples."""
        return self._each(self.batch * times, lambda values: values.repeat_interleave(times, dim=0))

    def select(self, start: int, stop: int) -> Self:
        """The examples from `start` to before `stop`."""
        start, stop, _ = slice(start, stop).indices(self.batch)
        return self._each(max(0, stop - start), lambda values: values[start:stop])

    def take(self, chosen: Tensor) -> Self:
        """The examples of the numbers `chosen: [examples]`."""
        return self._each(len(chosen), lambda values: values[chosen.to(values.device)])

    def narrow(self, elements: int) -> Context:
        """The same examples with fewer elements, of which those left out are padding."""
        return Context(self.batch, elements, None if self.mask is None else self.mask[:, :elements])

    def to(self, device: torch.device | str) -> Self:
        """The same context on another device."""
        tensors: dict[str, Any] = {name: value.to(device) for name, value in self._tensors().items()}
        return replace(self, **tensors)

    def _each(self, batch: int, change: Callable[[Tensor], Tensor]) -> Self:
        """A context of `batch` examples whose tensors are those of this one, changed."""
        tensors = self._tensors()
        if self.features is not None and self.features.shape[0] != self.batch:
            del tensors["features"]  # which all examples share
        changed: dict[str, Any] = {name: change(value) for name, value in tensors.items()}
        return replace(self, batch=batch, **changed)

    def _tensors(self) -> dict[str, Tensor]:
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}


@dataclass(frozen=True)
class ElementwiseContext(Context):
    """Elements that have nothing to do with each other: sums are per element, `[batch, elements]`.

    With it a transform gives a log-determinant for every element, in one pass over all of them.
    """

    def total(self, values: Tensor) -> Tensor:
        return self.hide(values).reshape(self.batch, self.elements, -1).sum(2)

    def counts(self, like: Tensor) -> Tensor:
        return self.hide(like.new_ones(self.batch, self.elements))


@dataclass(frozen=True)
class SetContext(Context):
    """Context of a set: elements without an order, optionally padded."""

    @classmethod
    def of(cls, x: Tensor, mask: Tensor | None = None) -> SetContext:
        """The context of categories `x: [batch, elements]`."""
        return cls(batch=x.shape[0], elements=x.shape[1], mask=mask)


@dataclass(frozen=True)
class SequenceContext(Context):
    """Context of texts: elements in an order, padded at their ends.

    Attributes:
        prompt: `[batch, known]`, the first elements of samples, which continue them; `None` for none.
        generator: randomness of dropout; `None` where nothing is dropped.
        anchors: means and log-scales of the categories in latent space, `[categories, channels]` each; `None`
            where couplings do not start from them.
        scores: of the latents under the logistics of all categories, `[batch, elements, categories]`, where
            they are known already.
        lengths: `[batch]`, of the whole texts, where the elements are their beginning alone.
        stepwise: whether flows go from element to element in both directions. All at once is faster, but
            rounds differently than step by step, where an unlikely symbol may then be taken for another.
    """

    pairwise: ClassVar[bool] = False

    prompt: Tensor | None = None
    generator: torch.Generator | None = None
    anchors: tuple[Tensor, Tensor] | None = None  # no tensor of its own: it has no batch
    scores: Tensor | None = None
    lengths: Tensor | None = None
    stepwise: bool = False

    @classmethod
    def of(cls, x: Tensor, lengths: Tensor | None = None) -> SequenceContext:
        """The context of categories `x: [batch, elements]`, of which `lengths: [batch]` are real."""
        mask = None if lengths is None else torch.arange(x.shape[1], device=x.device) < lengths.unsqueeze(1)
        return cls(batch=x.shape[0], elements=x.shape[1], mask=mask)

    @classmethod
    def need(cls, ctx: Context) -> SequenceContext:
        """A context as one of texts, or `InputError` where it is another one."""
        if not isinstance(ctx, SequenceContext):
            raise InputError(
                f"Texts need a SequenceContext, not a {type(ctx).__name__}; make one with of(x)."
            )
        return ctx

    def per_variable(self, like: Tensor) -> Tensor:
        """The same for all examples: every element counts alike, those of long texts too."""
        counts = self.counts(like)
        return (1.0 / counts.mean().clamp(min=1.0)).expand_as(counts)

    def to_end(self, like: Tensor) -> Tensor:
        """How many elements follow every element: `[batch, elements]`, or with 1 in place of `batch`."""
        place = torch.arange(self.elements, device=like.device)
        if self.lengths is not None:
            last = self.lengths.unsqueeze(1)
        elif self.mask is not None:
            last = self.mask.sum(1, keepdim=True)
        else:
            last = place.new_full((1, 1), self.elements)
        return (last - 1 - place).clamp(min=0)

    def beginning(self, elements: int, like: Tensor) -> SequenceContext:
        """The context of the first `elements` of the same texts, on the device of `like`."""
        lengths = self.real(like).sum(1)
        mask = None if self.mask is None else self.mask[:, :elements]
        return replace(self, elements=elements, mask=mask, lengths=lengths)

    def bare(self) -> Context:
        """Shape and padding alone."""
        return Context(self.batch, self.elements, self.mask)


@dataclass(frozen=True)
class GraphContext(Context):
    """Context of a graph: its nodes are the elements.

    Attributes:
        adjacency: `[batch, elements, elements]`, boolean and symmetric, false on the diagonal and at
            padded nodes.
        ties: `[batch, elements]`, numbers to put nodes in order by where nothing about the graph does.
    """

    adjacency: Tensor | None = None
    ties: Tensor | None = None

    @classmethod
    def of(cls, adjacency: Tensor, mask: Tensor | None = None) -> GraphContext:
        """The context of graphs `adjacency: [batch, elements, elements]`, where 0 is no edge."""
        if adjacency.dim() != 3 or adjacency.shape[1] != adjacency.shape[2]:
            raise InputError(
                f"The adjacency has shape {tuple(adjacency.shape)}; give [batch, elements, elements]."
            )
        edges = adjacency if adjacency.dtype == torch.bool else adjacency != 0
        return cls(batch=edges.shape[0], elements=edges.shape[1], mask=mask, adjacency=edges)

    def check(self) -> None:
        if self.adjacency is None:
            return
        loops = self.adjacency.diagonal(dim1=1, dim2=2).any(1)
        single = (self.adjacency != self.adjacency.mT).flatten(1).any(1)
        for wrong, what in ((loops, "from a node to itself"), (single, "in one direction only")):
            if wrong.any():
                raise InputError(
                    f"Graph {int(wrong.nonzero()[0])} has an edge {what}; "
                    "give a symmetric adjacency with nothing on its diagonal."
                )

    @property
    def edges(self) -> Tensor:
        """The adjacency; an error where there is none."""
        if self.adjacency is None:
            raise InputError("The context has no adjacency; make it with GraphContext.of(adjacency, mask).")
        return self.adjacency


@dataclass(frozen=True)
class TableContext(Context):
    """Context of rows whose categorical cells are the elements and whose numbers stand beside them.

    Attributes:
        numbers: `[batch, numeric columns]`, centred and scaled; anything where none is present.
        present: `[batch, numeric columns]`, false where a cell holds no number.
    """

    numbers: Tensor | None = None
    present: Tensor | None = None

    def counts(self, like: Tensor) -> Tensor:
        """The number of columns, of both kinds: what bits per variable are divided by."""
        numeric = 0 if self.numbers is None else self.numbers.shape[1]
        return like.new_full((self.batch,), float(self.elements + numeric))


@dataclass(frozen=True)
class ColumnContext(Context):
    """Context of columns that take turns.

    Attributes:
        turns: `[batch, elements]`, when each column comes, from 0 on.
        anchors: means and log-scales of the categories in latent space, `[elements, categories, channels]`.
    """

    turns: Tensor | None = None
    anchors: tuple[Tensor, Tensor] | None = None  # no tensor of its own: it has no batch

    @classmethod
    def need(cls, ctx: Context) -> ColumnContext:
        """A context as one of columns, or `InputError` where it is another one."""
        if not isinstance(ctx, ColumnContext):
            raise InputError(f"Columns in turns need a ColumnContext, not a {type(ctx).__name__}.")
        return ctx

    @property
    def order(self) -> Tensor:
        """The turns; an error where there are none."""
        if self.turns is None:
            raise InputError("The context does not say whose turn is when; let the model prepare it.")
        return self.turns

    @property
    def tables(self) -> tuple[Tensor, Tensor]:
        """The anchors; an error where there are none."""
        if self.anchors is None:
            raise InputError("The context lacks the means of the categories; let the model prepare it.")
        return self.anchors


@dataclass(frozen=True)
class RelationalContext(Context):
    """Context of a graph whose edges have categories.

    Attributes:
        relations: `[batch, nodes, relations * nodes]`, rows that average over the neighbours by a relation.
        degrees: `[batch, nodes, relations]`, how many neighbours a node has by every relation.
    """

    relations: Tensor | None = None
    degrees: Tensor | None = None

    @classmethod
    def of(cls, bonds: Tensor, relations: int, mask: Tensor | None = None) -> RelationalContext:
        """The context of graphs with categories of edges `bonds: [batch, nodes, nodes]`, 0 for no edge."""
        kinds = torch.arange(1, relations + 1, device=bonds.device)
        adjacency = (bonds.unsqueeze(2) == kinds.view(-1, 1)).float()  # [batch, nodes, relations, nodes]
        degrees = adjacency.sum(-1)
        means = adjacency / degrees.clamp(min=1.0).unsqueeze(-1)
        return cls(bonds.shape[0], bonds.shape[1], mask, None, means.flatten(2), degrees)


@dataclass(frozen=True)
class JointContext:
    """What networks over nodes and edges look at.

    Attributes:
        nodes: context whose elements are the nodes.
        edges: context whose elements are the edges.
        incidence: `[batch, 2, edges, nodes]`, 1 where a node is the first or the second end of an edge;
            `None` where edges are all pairs, in the order of `catnf.pairs`.
    """

    nodes: Context
    edges: Context
    incidence: Tensor | None = None
