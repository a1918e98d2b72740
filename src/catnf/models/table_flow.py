"""Rows of a table: a flow over categories, and a flow over numbers given them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from catnf.context import ColumnContext, Context, SetContext, TableContext
from catnf.encodings.columns import ColumnMixtureEncoding
from catnf.errors import InputError
from catnf.flows.any_order import AnyOrderMixture
from catnf.flows.coupling import unconverged_roots
from catnf.models.categorical_flow import CategoricalFlow
from catnf.models.model import Bound, Model, check_categories, draw_categories, importance_weighted
from catnf.models.number_flow import NumericFlow
from catnf.nets.any_order import draw_turns, put_later


class ColumnFlow(CategoricalFlow):
    """A flow over columns that take turns in an order of their own for every row and every draw.

    The likelihood is an average over orders, so that no column comes first. Cells that the context masks are
    not known: the likelihood is that of the others. Columns that are often not known come after those that
    always are: which cells are known may depend on the latter, and given them it tells nothing more.

    Args:
        encoding: maps categories to latents and back.
        flow: maps latents to the base distribution.
        late: columns that come after the others, `[columns]`, boolean; `None` for none.
    """

    encoding: ColumnMixtureEncoding
    flow: AnyOrderMixture
    late: Tensor | None

    def __init__(
        self, encoding: ColumnMixtureEncoding, flow: AnyOrderMixture, late: Tensor | None = None
    ) -> None:
        super().__init__(encoding, flow)
        self.register_buffer("late", late, persistent=False)

    def prepare(self, ctx: Context, generator: torch.Generator | None) -> ColumnContext:
        turns = ctx.turns if isinstance(ctx, ColumnContext) else None
        if turns is None:
            turns = put_later(draw_turns(ctx.batch, ctx.elements, generator, self.device), self.late)
        if ctx.mask is not None:  # what is not known comes last, where nothing sees it
            turns = put_later(turns, ~ctx.mask)
        return ColumnContext(ctx.batch, ctx.elements, ctx.mask, turns=turns, anchors=self.encoding.anchors)

    def bound(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Bound:
        own = self.prepare(ctx, generator)
        encoded = self.encoding.encode(x.long(), own, generator)
        log_flow = self.flow.log_density(encoded.z, own, self.base)
        return Bound(log_flow + encoded.log_weight, encoded.log_posterior)

    def training_bound(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Bound:
        """The bound where every latent tells its category, which categories far apart come close to.

        Then it is the logarithm of the weights themselves: there is no noise of latents in it, and none of
        the densities of all categories are needed.
        """
        own = self.prepare(ctx, generator)
        weights = self.flow.log_weights(x.long(), own)
        value = own.total(weights.gather(-1, x.long().unsqueeze(-1)).squeeze(-1))
        return Bound(value, torch.zeros_like(value))

    @torch.no_grad()
    def latents(
        self, size: int, generator: torch.Generator, given: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Latents `[size, elements, channels]`, and the log-probability of what is `given`, `[size]`.

        Known categories, `[elements]` with -1 for the others, take the first turns, or the first of the late
        ones where their columns are.
        """
        elements = len(self.encoding.log_prior)
        turns = draw_turns(size, elements, generator, self.device)
        if given is not None:
            # In their own order, so that the weights of all rows are the same.
            place = torch.arange(elements, device=self.device)
            turns = torch.where(given < 0, turns + elements, place).argsort(1).argsort(1)
        turns = put_later(turns, self.late)
        ctx = self.prepare(ColumnContext(size, elements, turns=turns), generator)
        return self.flow.draw(ctx, generator, given)


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
        return self._bound(x, ctx, generator, None if self.categorical is None else self.categorical.bound)

    def training_bound(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Bound:
        own = None if self.categorical is None else self.categorical.training_bound
        return self._bound(x, ctx, generator, own)

    def _bound(
        self,
        x: Tensor,
        ctx: Context,
        generator: torch.Generator | None,
        categories: Callable[[Tensor, Context, torch.Generator | None], Bound] | None,
    ) -> Bound:
        assert isinstance(ctx, TableContext)
        if categories is not None:
            found = categories(x, SetContext.of(x, ctx.mask), generator)
        else:
            found = Bound(torch.zeros(len(x), device=x.device), torch.zeros(len(x), device=x.device))
        if self.numeric is None:
            return found
        assert ctx.numbers is not None
        assert ctx.present is not None
        numeric = self.numeric.log_prob(x, ctx.numbers, ctx.present, generator, ctx.mask)
        return Bound(found.value + numeric, found.log_posterior)

    @torch.no_grad()
    def row_likelihood(
        self, x: Tensor, ctx: TableContext, samples: int, generator: torch.Generator | None = None
    ) -> RowLikelihood:
        """Importance-weighted bounds with `samples` draws, those of numbers given the categories."""
        zero = torch.zeros(len(x), device=x.device)
        categorical, numeric = zero, zero
        if self.categorical is not None:
            inner = SetContext.of(x, ctx.mask)
            categorical = self.categorical.log_prob(x, inner, samples, generator)
        if self.numeric is not None:
            assert ctx.numbers is not None
            assert ctx.present is not None
            # A single continuous column has neither an order nor noise.
            alone = self.numeric.columns == 1 and not bool((self.numeric.widths > 0).any())
            draws = [
                self.numeric.log_prob(x, ctx.numbers, ctx.present, generator, ctx.mask)
                for _ in range(1 if alone else samples)
            ]
            numeric = importance_weighted(torch.stack(draws, dim=1))
        return RowLikelihood(categorical, numeric)

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
        if isinstance(model, ColumnFlow):
            return model.latents(size, generator)[0]
        ctx = SetContext(size, len(self.sizes))
        z = model.base.sample((size, len(self.sizes), model.encoding.channels), generator, self.sizes.device)
        out = model.flow.inverse(z, ctx)
        unconverged_roots(model.flow)
        return out

    @torch.no_grad()
    def draw_given(self, size: int, given: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Categories `[size, elements]` with those `given: [elements]`, -1 for others, and log-weights."""
        assert self.categorical is not None
        model = self.categorical
        if isinstance(model, ColumnFlow):
            z, log_weight = model.latents(size, generator, given)
            x = draw_categories(self.posterior(z), generator)
        else:
            log_posterior = self.posterior(self.latents(size, generator))
            x = draw_categories(log_posterior, generator)
            known = given.clamp(min=0).view(1, -1, 1).expand(size, -1, 1)
            fits = log_posterior.gather(-1, known).squeeze(-1)
            log_weight = torch.where(given < 0, torch.zeros_like(fits), fits).sum(1)
        return torch.where(given < 0, x, given), log_weight

    @torch.no_grad()
    def posterior(self, z: Tensor) -> Tensor:
        """`log p(category | latents)` for `z: [size, elements, channels]`: `[size, elements, categories]`."""
        assert self.categorical is not None
        return self.categorical.encoding.posterior(z, SetContext(len(z), z.shape[1]))

    def initialize(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> None:
        assert isinstance(ctx, TableContext)
        if self.categorical is not None:
            self.categorical.initialize(x, SetContext.of(x, ctx.mask), generator)

    def check(self, x: Tensor, ctx: Context) -> None:
        if self.categorical is None:
            return
        check_categories(x, SetContext.of(x), self.categories)
        if bool((x >= self.sizes).any()):
            raise InputError(
                "A column has a category beyond those it was fitted with; encode rows as fitted."
            )
