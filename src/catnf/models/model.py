"""The contract that flows and baselines share, so that any model runs in any benchmark."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from catnf.context import Context
from catnf.errors import InputError


class Bound(NamedTuple):
    """A lower bound of `log p(x)`, in nats, and the part of it that is reconstruction.

    Attributes:
        value: `[batch]`.
        log_posterior: `log p(x|z)`, `[batch]`; zero for models without latents.
    """

    value: Tensor
    log_posterior: Tensor


class Model(nn.Module):
    """A distribution over categories `x: [batch, elements]`.

    Attributes:
        categories: the number of categories every element can take.
        exact: whether one draw of the likelihood is the likelihood.
    """

    categories: int
    exact: ClassVar[bool] = False

    def bound(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Bound:
        """One draw of the training bound; exact where the model has no latents."""
        raise NotImplementedError

    def likelihood(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Tensor:
        """One draw of a lower bound of `log p(x)` that averages to it in `log_prob`, in nats: `[batch]`."""
        return self.bound(x, ctx, generator).value

    def training_bound(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Bound:
        """The bound that the loss is made of; a model may have one with less noise than `bound`."""
        return self.bound(x, ctx, generator)

    @torch.no_grad()
    def sample(
        self, ctx: Context, generator: torch.Generator | None = None, temperature: float = 1.0
    ) -> Tensor:
        """Draw categories `[batch, elements]` of the shape that `ctx` describes."""
        check_temperature(temperature)
        return self.draw(ctx, generator, temperature)

    def draw_context(self, count: int, generator: torch.Generator) -> Context | None:
        """A context of `count` examples, where the model is one of contexts too; `None` otherwise."""
        return None

    def draw(self, ctx: Context, generator: torch.Generator | None, temperature: float = 1.0) -> Tensor:
        """`sample` without its checks, which read results back from a GPU."""
        raise NotImplementedError

    def reconstruct(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Tensor:
        """Encode `x`, run the flow forth and back, and decode: `[batch, elements]`."""
        raise NotImplementedError

    def initialize(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> None:
        """Set data-dependent parameters from categories `x`; nothing by default."""

    def loss(
        self,
        x: Tensor,
        ctx: Context,
        generator: torch.Generator | None = None,
        reconstruction_weight: Tensor | float = 1.0,
    ) -> tuple[Tensor, Tensor]:
        """The loss to minimise and the bound it comes from, both in nats per variable and 0-d.

        They differ where the reconstruction term is weighted.
        """
        bound = self.training_bound(x, ctx, generator)
        per_variable = ctx.per_variable(bound.value)
        nats = -(bound.value * per_variable).mean()
        extra = -(bound.log_posterior * per_variable).mean()
        return nats + (reconstruction_weight - 1.0) * extra, nats.detach()

    @torch.no_grad()
    def likelihoods(
        self,
        x: Tensor,
        ctx: Context,
        samples: int = 1,
        generator: torch.Generator | None = None,
        chunk: int = 16384,
    ) -> Tensor:
        """Draws of `likelihood`, in nats: `[batch, samples]`; of an exact model, the only one `[batch, 1]`.

        They are made in chunks of about `chunk` examples at once, so that memory stays bounded.
        """
        self.check(x, ctx)
        if samples < 1:
            raise InputError(f"samples is {samples}, but at least one draw is needed.")
        if self.exact:  # further draws would only repeat the first
            samples = 1
        at_once = max(1, min(samples, chunk // ctx.batch))
        parts = []
        for done in range(0, samples, at_once):
            now = min(at_once, samples - done)
            value = self.likelihood(x.repeat_interleave(now, 0), ctx.repeat(now), generator)
            parts.append(value.view(ctx.batch, now))
        return torch.cat(parts, dim=1)

    @torch.no_grad()
    def log_prob(
        self,
        x: Tensor,
        ctx: Context,
        samples: int = 1,
        generator: torch.Generator | None = None,
        chunk: int = 16384,
    ) -> Tensor:
        """The importance-weighted bound of `log p(x)` with `samples` draws, in nats: `[batch]`.

        Draws are processed in chunks of about `chunk` examples at once. Exact models need a single draw,
        whatever `samples` says.
        """
        return importance_weighted(self.likelihoods(x, ctx, samples, generator, chunk))

    def check(self, x: Tensor, ctx: Context) -> None:
        """Refuse categories that this model cannot have produced."""
        check_categories(x, ctx, self.categories)


def importance_weighted(likelihoods: Tensor) -> Tensor:
    """The logarithm of the mean of the draws' exponentials, `likelihoods: [batch, samples]`: `[batch]`.

    By Jensen's inequality it is never below the mean of the draws themselves.
    """
    return likelihoods.logsumexp(1) - math.log(likelihoods.shape[1])


def check_temperature(temperature: float) -> None:
    """Raise `InputError` unless samples can be drawn at this temperature."""
    if not 0.0 < temperature < math.inf:
        raise InputError(
            f"temperature is {temperature}; give a finite number above 0, where 1 is the model itself."
        )


def draw_categories(logits: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw from `softmax(logits)`, `logits: [..., categories]`: `[...]`.

    By the first arrival among exponential clocks, which unlike `torch.multinomial` never waits for a GPU.
    """
    clocks = torch.empty_like(logits).exponential_(generator=generator)
    return (torch.softmax(logits, dim=-1) / clocks).argmax(-1)


def check_categories(x: Tensor, ctx: Context, categories: int) -> None:
    """Raise `InputError` unless `x` is `[batch, elements]` of integers in `0 ... categories - 1`."""
    if x.dim() != 2:
        raise InputError(f"Categories have shape {tuple(x.shape)}; give a tensor [batch, elements].")
    if x.dtype not in (torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8):
        raise InputError(f"Categories have dtype {x.dtype}; give integers, for instance x.long().")
    if x.shape[0] == 0 or x.shape[1] == 0:
        raise InputError(f"Categories have shape {tuple(x.shape)}; give at least one example and element.")
    if tuple(x.shape) != (ctx.batch, ctx.elements):
        raise InputError(
            f"Categories have shape {tuple(x.shape)} but the context describes "
            f"{(ctx.batch, ctx.elements)}; make the context from the same batch."
        )
    real = x if ctx.mask is None else x[ctx.mask]
    if real.numel() and (int(real.min()) < 0 or int(real.max()) >= categories):
        bad = int(real.min()) if int(real.min()) < 0 else int(real.max())
        raise InputError(f"Category {bad} is out of range; this model knows 0 to {categories - 1}.")
