"""Rows of a table: a flow over categories, and a flow over numbers given them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.context import Context, SetContext, TableContext
from catnf.encodings.columns import lookup_columns
from catnf.errors import InputError
from catnf.flows.base import Logistic
from catnf.flows.coupling import unconverged_roots
from catnf.flows.step import Conditioner, mixture_steps
from catnf.models.categorical_flow import CategoricalFlow
from catnf.models.model import Bound, Model, check_categories


class NumericFlow(nn.Module):
    """`p(numbers | categories)`, with the exact change of variables of every scaling.

    A number `t`, centred and scaled, becomes `asinh(t)`, which tames long tails, and then goes through
    mixture couplings that see the other numbers and the row's categories. Integers are spread evenly over
    their unit interval first, so that what is bounded is the probability of the integer itself.

    Args:
        scales: what every column was divided by, `[columns]`.
        integers: which columns are whole numbers, `[columns]`, boolean.
        categories: numbers of elements and of categories of the categorical part; `(0, 0)` for none.
        features: width of what the couplings see of the categories.
        layers: steps of the flow.
        mixtures: logistics in a coupling.
        conditioner: makes the conditioners, which take `features`.
    """

    widths: Tensor
    log_scales: Tensor

    def __init__(
        self,
        scales: Tensor,
        integers: Tensor,
        categories: tuple[int, int],
        features: int,
        layers: int,
        mixtures: int,
        conditioner: Conditioner,
    ) -> None:
        super().__init__()
        self.columns = len(scales)
        self.register_buffer("widths", torch.where(integers, 1.0 / scales, torch.zeros_like(scales)).float())
        self.register_buffer("log_scales", scales.double().log().float())
        self.embedding = nn.Parameter(torch.randn(*categories, features)) if categories[0] else None
        self.mix = nn.Linear(features, features)
        self.flow = mixture_steps(1, layers, mixtures, conditioner, self.columns)
        self.base = Logistic()

    def log_prob(
        self, x: Tensor, numbers: Tensor, present: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        """One draw of a bound of `log p(numbers | x)`, `[batch]`; exact where no column is of integers."""
        ctx, t = self._context(x, present), numbers
        t = t + self.widths * torch.rand(t.shape, generator=generator, device=t.device)
        t = torch.where(present, t, torch.zeros_like(t))
        z, logdet = self.flow(torch.asinh(t).unsqueeze(-1), ctx)
        # d asinh(t) / dt = (1 + t²)^(-1/2), and t itself is a number divided by its column's scale.
        change = -0.5 * torch.log1p(t.square()) - self.log_scales
        return ctx.total(self.base.log_prob(z)) + logdet + ctx.total(change)

    def sample(self, x: Tensor, present: Tensor, generator: torch.Generator | None) -> Tensor:
        """Numbers `[batch, columns]` for categories `x`, centred and scaled as in training."""
        ctx = self._context(x, present)
        z = self.base.sample((len(x), self.columns, 1), generator, x.device)
        t = torch.sinh(self.flow.inverse(ctx.hide(z), ctx).squeeze(-1).clamp(-20.0, 20.0))
        return torch.where(present, t, torch.zeros_like(t))

    def initialize(self, x: Tensor, numbers: Tensor, present: Tensor) -> None:
        """Set the normalizations from data."""
        self.flow.initialize(
            torch.where(present, torch.asinh(numbers), torch.zeros_like(numbers)).unsqueeze(-1),
            self._context(x, present),
        )

    def _context(self, x: Tensor, present: Tensor) -> SetContext:
        if self.embedding is None:
            seen = self.mix.bias.new_zeros(len(present), self.mix.in_features)
        else:
            seen = lookup_columns(self.embedding, x).sum(1) / math.sqrt(x.shape[1])
        features = F.gelu(self.mix(seen)).unsqueeze(1).expand(-1, self.columns, -1)
        return SetContext(len(present), self.columns, present, features)


class RowLikelihood(NamedTuple):
    """Bounds of log-likelihoods in nats, `[batch]` each, by kind of column; their sum is the row's."""

    categorical: Tensor
    numeric: Tensor


class TableFlow(Model):
    """`p(row) = p(categories) p(numbers | categories)`.

    Args:
        categorical: over the categorical cells; `None` where a table has none.
        numeric: over the numbers; `None` where a table has none.
        sizes: the number of categories of every element, `[elements]`.
    """

    sizes: Tensor

    def __init__(
        self, categorical: CategoricalFlow | None, numeric: NumericFlow | None, sizes: Tensor
    ) -> None:
        super().__init__()
        self.categorical = categorical
        self.numeric = numeric
        self.categories = 1 if categorical is None else categorical.categories
        self.register_buffer("sizes", sizes, persistent=False)

    def bound(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Bound:
        assert isinstance(ctx, TableContext)
        if self.categorical is not None:
            found = self.categorical.bound(x, SetContext.of(x), generator)
        else:
            found = Bound(torch.zeros(len(x), device=x.device), torch.zeros(len(x), device=x.device))
        if self.numeric is None:
            return found
        assert ctx.numbers is not None
        assert ctx.present is not None
        numeric = self.numeric.log_prob(x, ctx.numbers, ctx.present, generator)
        return Bound(found.value + numeric, found.log_posterior)

    @torch.no_grad()
    def row_likelihood(
        self, x: Tensor, ctx: TableContext, samples: int, generator: torch.Generator | None = None
    ) -> RowLikelihood:
        """Importance-weighted bounds with `samples` draws, those of numbers given the categories."""
        zero = torch.zeros(len(x), device=x.device)
        categorical, numeric = zero, zero
        if self.categorical is not None:
            inner = SetContext.of(x)
            categorical = self.categorical.log_prob(x, inner, samples, generator)
        if self.numeric is not None:
            draws = samples if bool((self.numeric.widths > 0).any()) else 1
            numeric = _averaged(self._draw_numeric(x, ctx, generator), draws)
        return RowLikelihood(categorical, numeric)

    def _draw_numeric(
        self, x: Tensor, ctx: TableContext, generator: torch.Generator | None
    ) -> Callable[[], Tensor]:
        flow, numbers, present = self.numeric, ctx.numbers, ctx.present
        assert flow is not None
        assert numbers is not None
        assert present is not None
        return lambda: flow.log_prob(x, numbers, present, generator)

    @torch.no_grad()
    def log_prob(
        self,
        x: Tensor,
        ctx: Context,
        samples: int = 1,
        generator: torch.Generator | None = None,
        chunk: int = 16384,
    ) -> Tensor:
        assert isinstance(ctx, TableContext)
        self.check(x, ctx)
        parts = self.row_likelihood(x, ctx, samples, generator)
        return parts.categorical + parts.numeric

    @torch.no_grad()
    def latents(self, size: int, generator: torch.Generator) -> Tensor:
        """Latents of the categorical cells, drawn from the flow: `[size, elements, channels]`."""
        assert self.categorical is not None
        model = self.categorical
        ctx = SetContext(size, len(self.sizes))
        z = model.base.sample((size, len(self.sizes), model.encoding.channels), generator, self.sizes.device)
        out = model.flow.inverse(z, ctx)
        unconverged_roots(model.flow)
        return out

    @torch.no_grad()
    def posterior(self, z: Tensor) -> Tensor:
        """`log p(category | latents)` for `z: [size, elements, channels]`: `[size, elements, categories]`."""
        assert self.categorical is not None
        return self.categorical.encoding.posterior(z, SetContext(len(z), z.shape[1]))

    def initialize(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> None:
        assert isinstance(ctx, TableContext)
        if self.categorical is not None:
            self.categorical.initialize(x, SetContext.of(x), generator)
        if self.numeric is not None:
            assert ctx.numbers is not None
            assert ctx.present is not None
            self.numeric.initialize(x, ctx.numbers, ctx.present)

    def check(self, x: Tensor, ctx: Context) -> None:
        if self.categorical is None:
            return
        check_categories(x, SetContext.of(x), self.categories)
        if bool((x >= self.sizes).any()):
            raise InputError(
                "A column has a category beyond those it was fitted with; encode rows as fitted."
            )


def _averaged(draw: Callable[[], Tensor], samples: int) -> Tensor:
    """The logarithm of the mean of `samples` draws' exponentials, `[batch]`."""
    total = draw()
    for _ in range(samples - 1):
        total = torch.logaddexp(total, draw())
    return total - math.log(samples)
