"""Discrete normalizing flow: couplings that shift categories (a baseline)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.context import Context
from catnf.errors import InputError
from catnf.flows.masks import ChessMask, chess_mask
from catnf.flows.step import Conditioner
from catnf.models.model import Bound, Model


class ShiftCoupling(nn.Module):
    """`x -> (x + shift) mod categories`, the shift predicted from the kept elements.

    The shift is an argmax; its gradient is that of a softmax at a low temperature (straight through). No
    Gumbel noise is added: a shift must be the same forth and back.

    Args:
        conditioner: `(kept, ctx) -> logits [batch, elements, categories]`.
        categories: the number of categories.
        mask: which elements are kept.
        temperature: of the softmax whose gradient is used.
    """

    compile_unit = True
    shifts: Tensor

    def __init__(self, conditioner: nn.Module, categories: int, mask: ChessMask, temperature: float) -> None:
        super().__init__()
        self.conditioner, self.mask, self.temperature = conditioner, mask, temperature
        index = torch.arange(categories)
        target = (index[:, None] + index[None, :]) % categories  # target[shift, x]
        table = F.one_hot(target, categories).float().flatten(0, 1)
        self.register_buffer("shifts", table, persistent=False)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        """One-hot `x: [batch, elements, categories]`, shifted."""
        return self._shifted(x, self._shift(x, ctx), ctx)

    def inverse(self, x: Tensor, ctx: Context) -> Tensor:
        """Undo `forward`."""
        # The one-hot vector of -s mod categories is that of s, reversed, with entry 0 staying in place.
        shift = self._shift(x, ctx)
        return self._shifted(x, shift.flip(-1).roll(1, -1), ctx)

    def _shift(self, x: Tensor, ctx: Context) -> Tensor:
        logits = self.conditioner(self.mask.kept(x), ctx).float()
        hard = F.one_hot(logits.argmax(-1), logits.shape[-1]).to(logits.dtype)
        if not torch.is_grad_enabled():
            return hard
        soft = torch.softmax(logits / self.temperature, dim=-1)
        return hard + soft - soft.detach()

    def _shifted(self, x: Tensor, shift: Tensor, ctx: Context) -> Tensor:
        pairs = (shift.unsqueeze(-1) * x.unsqueeze(-2)).flatten(-2)
        return ctx.hide(self.mask.join(x, pairs @ self.shifts))


class DiscreteFlow(Model):
    """Shift couplings onto independent categorical distributions, one for every position.

    Its likelihood is exact: shifts are bijections of a finite space.

    Args:
        frequencies: of the categories in training data, `[categories]`; where the base starts.
        elements: the number of elements, fixed, since the base has a distribution for each.
        layers: the number of couplings.
        conditioner: makes the conditioners.
        temperature: of the straight-through softmax.
    """

    exact = True

    def __init__(
        self,
        frequencies: Tensor,
        elements: int,
        layers: int,
        conditioner: Conditioner,
        temperature: float = 0.1,
    ) -> None:
        super().__init__()
        categories = len(frequencies)
        self.categories, self.elements = categories, elements
        couplings = []
        for index in range(layers):
            mask = chess_mask(index, elements)
            network = conditioner(mask.conditioner_channels(categories), categories)
            couplings.append(ShiftCoupling(network, categories, mask, temperature))
        self.couplings = nn.ModuleList(couplings)
        self.base_logits = nn.Parameter(frequencies.log().repeat(elements, 1))

    def check(self, x: Tensor, ctx: Context) -> None:
        super().check(x, ctx)
        self._check_elements(ctx)

    def _check_elements(self, ctx: Context) -> None:
        if ctx.elements != self.elements:
            raise InputError(
                f"Examples have {ctx.elements} elements; this model was made for {self.elements}."
            )

    def bound(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Bound:
        values = self._forward(x, ctx)
        log_base = torch.log_softmax(self.base_logits, dim=-1)
        value = ctx.total((values * log_base).sum(-1))
        return Bound(value, torch.zeros_like(value))

    @torch.no_grad()
    def sample(
        self, ctx: Context, generator: torch.Generator | None = None, temperature: float = 1.0
    ) -> Tensor:
        self._check_elements(ctx)
        return super().sample(ctx, generator, temperature)

    def draw(self, ctx: Context, generator: torch.Generator | None, temperature: float = 1.0) -> Tensor:
        probabilities = torch.softmax(self.base_logits / temperature, dim=-1)
        x = torch.multinomial(probabilities, ctx.batch, replacement=True, generator=generator).T
        return self._inverse(F.one_hot(x, self.categories).float(), ctx)

    @torch.no_grad()
    def reconstruct(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Tensor:
        self.check(x, ctx)
        return self._inverse(self._forward(x, ctx), ctx)

    def _forward(self, x: Tensor, ctx: Context) -> Tensor:
        """Categories `[batch, elements]` to one-hot vectors in the space of the base."""
        values = F.one_hot(ctx.hide(x).long(), self.categories).float()
        for coupling in self.couplings:
            values = coupling(values, ctx)
        return values

    def _inverse(self, values: Tensor, ctx: Context) -> Tensor:
        couplings = cast("Iterable[ShiftCoupling]", self.couplings)
        for coupling in reversed(list(couplings)):
            values = coupling.inverse(values, ctx)
        return values.argmax(-1)
