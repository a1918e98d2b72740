"""What every part of a model may look at besides the latents themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class Context:
    """Shape, padding and side information of one batch.

    Padding is handled by the methods below; besides them only attention and checks of input look at the
    mask. Latents at padded elements are always zero; transforms keep them so with `hide`.

    Attributes:
        batch: number of examples.
        elements: number of elements an example has, padding included.
        mask: `[batch, elements]`, true where an element is real; `None` when nothing is padded.
        features: `[batch, elements, features]`, or with 1 in place of `batch`: extra inputs of the
            conditioners, for instance an embedding of the categories while encoding them.
    """

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

    def with_features(self, features: Tensor) -> Self:
        """The same context with other conditioner inputs, `features: [batch, elements, features]`."""
        return replace(self, features=features)

    def repeat(self, times: int) -> Self:
        """Every example `times` times in a row: a context of `batch * times` examples."""
        return replace(
            self,
            batch=self.batch * times,
            mask=_repeat(self.mask, times),
            features=_repeat(self.features, times),
        )


def _repeat(values: Tensor | None, times: int) -> Tensor | None:
    return None if values is None else values.repeat_interleave(times, dim=0)


@dataclass(frozen=True)
class ElementwiseContext(Context):
    """Elements that have nothing to do with each other: sums are per element, `[batch, elements]`.

    With it a transform gives a log-determinant for every element, in one pass over all of them.
    """

    def total(self, values: Tensor) -> Tensor:
        return self.hide(values).flatten(2).sum(2)

    def counts(self, like: Tensor) -> Tensor:
        return self.hide(like.new_ones(self.batch, self.elements))


@dataclass(frozen=True)
class SetContext(Context):
    """Context of a set: elements without an order, optionally padded."""

    @classmethod
    def of(cls, x: Tensor, mask: Tensor | None = None) -> SetContext:
        """The context of categories `x: [batch, elements]`."""
        return cls(batch=x.shape[0], elements=x.shape[1], mask=mask)
