"""Latents as the mixture of the categories' logistics, weighted by a network over time and not changed."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from catnf.context import Context, SequenceContext
from catnf.flows.anchors import Anchors, read
from catnf.flows.autoregressive import changed_one_by_one, restored_one_by_one
from catnf.flows.base import Logistic
from catnf.flows.mixture import mixture_logit, mixture_logit_inverse
from catnf.flows.transform import Transform


class CategoryDensity(nn.Module):
    """`log p(z_t | state) = logsumexp_k(log-weight of k + log q(z_t | k))`, given states of a network.

    Args:
        weights: a network from states to log-weights `[batch, elements, categories]`.
    """

    compile_unit = True

    def __init__(self, weights: nn.Module) -> None:
        super().__init__()
        self.weights = weights

    def forward(self, scores: Tensor, h: Tensor, ctx: Context) -> Tensor:
        """`log p(z)`, summed over elements: `[batch]`, with `scores: [batch, elements, categories]` of it."""
        weights = torch.log_softmax(self.weights(h).to(scores.dtype), dim=-1)
        return ctx.total(torch.logsumexp(weights + scores, dim=-1))


class CategoryMixture(Transform):
    """An autoregressive coupling whose mixtures are those of the categories and nothing else.

    It is what `AutoregressiveMixture` with anchors is while it predicts no changes to them. Changes slow
    learning down at first, and for each of thousands of logistics would be too many numbers, while the
    density of this one is a single sum over them: `log_density` needs no distribution functions, which only
    `forward` and `inverse` work with.

    Args:
        network: a `CausalNetwork` of as many inputs as the reader gives, or as there are channels.
        weights: a network from its states to log-weights `[batch, elements, categories]`.
        reader: a `SymbolReader`, or `None` where the network sees latents alone.
    """

    unconverged: Tensor

    def __init__(self, network: nn.Module, weights: nn.Module, reader: nn.Module | None = None) -> None:
        super().__init__()
        self.network, self.reader = network, reader
        self.density = CategoryDensity(weights)
        self.register_buffer("unconverged", torch.zeros((), dtype=torch.int64), persistent=False)

    def log_density(self, z: Tensor, ctx: Context, base: Logistic) -> Tensor:
        own, anchors = anchored(ctx)
        if own.scores is None:
            own = replace(own, scores=anchors.joint_log_densities(z))
        out: Tensor = self.density(own.scores, self._states(z, own, anchors), own.bare())
        return out

    def forward(self, z: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        own, anchors = anchored(ctx)
        if own.stepwise:

            def change(now: Tensor, state: Tensor, one: Context) -> tuple[Tensor, Tensor]:
                return self.change(now, state, one, anchors)

            return changed_one_by_one(
                z, own, self.network, change, lambda now: read(now, anchors, self.reader)
            )
        return self.change(z, self._states(z, own, anchors), own, anchors)

    def inverse(self, z: Tensor, ctx: Context) -> Tensor:
        own, anchors = anchored(ctx)

        def restore(y: Tensor, state: Tensor, one: Context) -> Tensor:
            return self.restore(y, state, one, anchors)

        return restored_one_by_one(z, own, self.network, restore, lambda now: read(now, anchors, self.reader))

    def initialize(self, z: Tensor, ctx: Context) -> Tensor:
        return z  # nothing here depends on data, and what it makes of latents is expensive

    def _states(self, z: Tensor, ctx: SequenceContext, anchors: Anchors) -> Tensor:
        states: Tensor = self.network(read(z, anchors, self.reader, ctx.scores), ctx)
        return states

    def change(self, z: Tensor, h: Tensor, ctx: Context, anchors: Anchors) -> tuple[Tensor, Tensor]:
        """What latents become, given states `h: [batch, elements, hidden]`, and the log-determinant."""
        weights = self.density.weights(h).to(z.dtype)
        out, logdet = [], []
        for channel, values in enumerate(z.unbind(-1)):
            logit, log_derivative = mixture_logit(values, anchors.mixture(weights, channel))
            out.append(logit * math.exp(Logistic.log_scale))
            logdet.append(log_derivative + Logistic.log_scale)
            weights = weights + anchors.log_densities(values.unsqueeze(-1), channel).squeeze(-2)
        return ctx.hide(torch.stack(out, dim=-1)), ctx.total(torch.stack(logdet, dim=-1))

    def restore(self, y: Tensor, h: Tensor, ctx: Context, anchors: Anchors) -> Tensor:
        """Undo `change`."""
        weights = self.density.weights(h).to(y.dtype)
        found = []
        for channel, values in enumerate(y.unbind(-1)):
            mixture = anchors.mixture(weights, channel)
            root = mixture_logit_inverse(values * math.exp(-Logistic.log_scale), mixture)
            self.unconverged += ctx.total((~root.converged).to(y.dtype)).sum().to(torch.int64)
            found.append(ctx.hide(root.value))
            weights = weights + anchors.log_densities(found[-1].unsqueeze(-1), channel).squeeze(-2)
        return torch.stack(found, dim=-1)


def anchored(ctx: Context) -> tuple[SequenceContext, Anchors]:
    """A context as one of texts, and the categories' logistics in it."""
    own = SequenceContext.need(ctx)
    assert own.anchors is not None, "the model puts them into the context"
    return own, Anchors(*own.anchors)
