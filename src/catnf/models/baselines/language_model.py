"""A language model (a baseline): every symbol given those before it, without latents."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.context import Context, SequenceContext
from catnf.flows.autoregressive import CausalNetwork
from catnf.models.model import Bound, draw_categories
from catnf.models.text_flow import TextModel, check_prompt
from catnf.nets.linear import lookup, select


class LanguageModel(TextModel):
    """`p(x) = prod_t p(x_t | x_<t)` with the network of an autoregressive flow.

    Args:
        categories: of a symbol.
        embedding: of the categories, `[categories, features]`, where it starts; `None` for the categories
            themselves, one-hot.
        network: a `CausalNetwork` of `features` inputs.
        weights: from its states to log-weights of the categories.
        lengths: how often texts of 0, 1, 2, ... elements occur, `[longest + 1]`; `None` where all are alike.
    """

    exact = True
    lengths: Tensor | None

    def __init__(
        self,
        categories: int,
        embedding: Tensor | None,
        network: nn.Module,
        weights: nn.Module,
        lengths: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.categories = categories
        self.embedding = None if embedding is None else nn.Parameter(embedding)
        self.network = network
        self.predictor = Predictor(weights)
        self.register_buffer("lengths", lengths)

    def bound(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Bound:
        own = SequenceContext.need(ctx)
        x = own.hide(x).long()
        states = self.network(self._read(x), own)
        value = self.predictor(states, x, own.bare())
        return Bound(value, torch.zeros_like(value))

    @torch.no_grad()
    def sample(
        self, ctx: Context, generator: torch.Generator | None = None, temperature: float = 1.0
    ) -> Tensor:
        check_prompt(ctx, self.categories)
        return super().sample(ctx, generator, temperature)

    def draw(self, ctx: Context, generator: torch.Generator | None, temperature: float = 1.0) -> Tensor:
        own, network = SequenceContext.need(ctx), cast("CausalNetwork", self.network)
        device = next(self.network.parameters()).device
        now = torch.zeros_like(self._read(torch.zeros(own.batch, 1, dtype=torch.long, device=device)))
        memory, out = network.begin(own, now), []
        known = 0 if own.prompt is None else own.prompt.shape[1]
        for place in range(own.elements):
            state = network.advance(now, memory, place)
            if own.prompt is not None and place < known:
                x = own.prompt[:, place : place + 1].long()
            else:
                x = draw_categories(self.predictor.logits(state) / temperature, generator)
            now = self._read(x)
            out.append(x)
        return own.hide(torch.cat(out, dim=1))

    @torch.no_grad()
    def reconstruct(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Tensor:
        self.check(x, ctx)
        return x.clone()  # there is no latent space to lose anything in

    def _read(self, x: Tensor) -> Tensor:
        """What the network sees of symbols `x: [batch, elements]`, `[batch, elements, features]`."""
        if self.embedding is None:
            return F.one_hot(x, self.categories).float()
        return lookup(self.embedding, x)


class Predictor(nn.Module):
    """From states of a text to probabilities of the next symbol.

    Args:
        weights: from states to log-weights of the symbols.
    """

    compile_unit = True

    def __init__(self, weights: nn.Module) -> None:
        super().__init__()
        self.weights = weights

    def forward(self, states: Tensor, x: Tensor, ctx: Context) -> Tensor:
        """`log p(x)` of texts `x: [batch, elements]` with `states: [batch, elements, hidden]`: `[batch]`."""
        return ctx.total(select(torch.log_softmax(self.logits(states), dim=-1), x))

    def logits(self, states: Tensor) -> Tensor:
        """`[batch, elements, categories]`, in float32."""
        out: Tensor = self.weights(states).float()
        return out
