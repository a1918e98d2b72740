"""Numbers of a row given its categories, one after another in any order."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.flows.base import STANDARD_SCALE, Logistic, logistic_log_density
from catnf.models.model import draw_categories
from catnf.nets.any_order import AnyOrderNetwork, draw_turns, put_later, seen_before

_STEPS = 12  # smooth steps that a network sees of a number, over the range below
_RANGE = 2.5


class NumericFlow(nn.Module):
    """`p(numbers | categories)`, with the exact change of variables of every scaling.

    A number `t`, centred and scaled, becomes `asinh(t)`, which tames long tails, and is then a mixture of
    logistics, predicted from the row's categories and from the numbers whose turn came before, in a random
    order: an autoregressive mixture coupling, of which only the density is ever needed. Integers are spread
    evenly over their unit interval first, so that what is bounded is the probability of the integer itself.

    Args:
        scales: what every column was divided by, `[columns]`.
        integers: which columns are whole numbers, `[columns]`, boolean.
        categories: numbers of elements and of categories of the categorical part; `(0, 0)` for none.
        hidden: width of the network.
        layers: looks at what is known.
        heads: attention heads.
        mixtures: logistics of a number.
        late: columns that come after the others, `[columns]`, boolean; `None` for none.
    """

    widths: Tensor
    log_scales: Tensor
    centers: Tensor
    late: Tensor | None

    def __init__(
        self,
        scales: Tensor,
        integers: Tensor,
        categories: tuple[int, int],
        hidden: int,
        layers: int,
        heads: int,
        mixtures: int,
        late: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.register_buffer("late", late, persistent=False)
        self.columns, self.elements, self.mixtures = len(scales), categories[0], mixtures
        self.register_buffer("widths", torch.where(integers, 1.0 / scales, torch.zeros_like(scales)).float())
        self.register_buffer("log_scales", scales.double().log().float())
        self.register_buffer("centers", torch.linspace(-_RANGE, _RANGE, _STEPS), persistent=False)
        self.embedding = nn.Parameter(torch.randn(*categories, hidden)) if categories[0] else None
        self.content = nn.Parameter(torch.randn(self.columns, _STEPS + 1, hidden) / _STEPS**0.5)
        self.content_bias = nn.Parameter(torch.randn(self.columns, hidden))
        self.network = AnyOrderNetwork(self.columns, hidden, layers, heads)
        self.output = nn.Parameter(torch.zeros(self.columns, hidden, 3 * mixtures))
        start = torch.zeros(3, mixtures)
        start[1] = torch.linspace(-2.0, 2.0, mixtures)
        self.biases = nn.Parameter(start.flatten().repeat(self.columns, 1))

    def log_prob(
        self,
        x: Tensor,
        numbers: Tensor,
        present: Tensor,
        generator: torch.Generator | None,
        known: Tensor | None = None,
    ) -> Tensor:
        """One draw of a bound of `log p(numbers | x)`, `[batch]`; of integers and of orders.

        Args:
            x: categories, `[batch, elements]`.
            numbers: centred and scaled, `[batch, columns]`.
            present: which of them are there, `[batch, columns]`.
            generator: source of the draws.
            known: which categories are, `[batch, elements]`; `None` for all.
        """
        t = numbers + self.widths * torch.rand(numbers.shape, generator=generator, device=numbers.device)
        t = torch.where(present, t, torch.zeros_like(t))
        z = torch.asinh(t)
        turns = put_later(draw_turns(len(z), self.columns, generator, z.device), self.late)
        own = self.network.offers(self._contents(z))
        visible = self._visible(seen_before(turns) & present.unsqueeze(1), known)
        state = self.network(torch.cat([self._known(x), own], dim=1), visible)
        parameters = torch.einsum("bnh,nhm->bnm", state.to(z.dtype), self.output) + self.biases
        logits, means, log_scales = torch.unflatten(parameters, -1, (3, self.mixtures)).unbind(-2)
        log_scales = _bounded(log_scales)
        u = (z.unsqueeze(-1) - means) * torch.exp(-log_scales)
        density = torch.log_softmax(logits, -1) + logistic_log_density(u) - log_scales
        # d asinh(t) / dt = (1 + t²)^(-1/2), and t itself is a number divided by its column's scale.
        change = -0.5 * torch.log1p(t.square()) - self.log_scales
        total = torch.logsumexp(density, dim=-1) + change
        return torch.where(present, total, torch.zeros_like(total)).sum(1)

    def sample(self, x: Tensor, present: Tensor, generator: torch.Generator | None) -> Tensor:
        """Numbers `[batch, columns]` for categories `x`, centred and scaled as in training."""
        batch, rows = len(x), torch.arange(len(x), device=x.device)
        turns = put_later(draw_turns(batch, self.columns, generator, x.device), self.late)
        order = turns.argsort(1)
        z = torch.zeros(batch, self.columns, device=x.device)
        known = self._known(x)
        own = known.new_zeros(batch, self.columns, *known.shape[2:])
        for turn in range(self.columns):
            at = order[:, turn]
            visible = self._visible(((turns < turn) & present).unsqueeze(1))
            state = self.network(torch.cat([known, own], dim=1), visible, at.unsqueeze(1)).squeeze(1)
            parameters = torch.einsum("bh,bhm->bm", state.to(z.dtype), self.output[at]) + self.biases[at]
            logits, means, log_scales = torch.unflatten(parameters, -1, (3, self.mixtures)).unbind(-2)
            chosen = draw_categories(logits, generator)
            noise = Logistic().sample((batch,), generator, z.device) / STANDARD_SCALE
            z[rows, at] = means[rows, chosen] + noise * _bounded(log_scales[rows, chosen]).exp()
            own[rows, at] = self.network.offers(self._contents(z))[rows, at]
        t = torch.sinh(z.clamp(-20.0, 20.0))
        return torch.where(present, t, torch.zeros_like(t))

    def _known(self, x: Tensor) -> Tensor:
        """What the categories offer, `[batch, elements, layers, 2 hidden]`."""
        if self.embedding is None:
            return self.network.offers(self.content.new_zeros(len(x), 0, self.content.shape[-1]))
        first = torch.arange(self.elements, device=x.device) * self.embedding.shape[1]
        return self.network.offers(F.embedding(x + first, self.embedding.flatten(0, 1)))

    def _contents(self, z: Tensor) -> Tensor:
        """What a network sees of numbers `z: [batch, columns]`: `[batch, columns, hidden]`."""
        steps = torch.sigmoid(4.0 * (z.unsqueeze(-1) - self.centers)) - 0.5
        seen = torch.cat([z.unsqueeze(-1).clamp(-4.0, 4.0), steps], dim=-1)
        return torch.einsum("bns,nsh->bnh", seen, self.content) + self.content_bias

    def _visible(self, numbers: Tensor, known: Tensor | None = None) -> Tensor:
        """`numbers: [batch, predicted, columns]` with the known categories before them, by default all."""
        if known is None:
            return F.pad(numbers, (self.elements, 0), value=True)
        return torch.cat([known.unsqueeze(1).expand(-1, numbers.shape[1], -1), numbers], dim=2)


def _bounded(log_scales: Tensor) -> Tensor:
    """Log-scales between -6 and 2, about 0.1 at the start."""
    return 4.0 * torch.tanh(0.25 * log_scales) - 2.0
