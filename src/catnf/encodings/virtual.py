"""Pairs of nodes without an edge, in the latent space of edges."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from catnf.flows.base import Logistic
from catnf.nets.linear import AlignedLinear
from catnf.nets.network import Network


class EdgeDetector(Network):
    """Tells edges from pairs without one: two layers on `z`, `elu(z)` and `elu(-z)`.

    Args:
        channels: latent channels of an edge.
        hidden: width.
        share: of pairs that have an edge, which the first predictions equal.
    """

    def __init__(self, channels: int, hidden: int = 128, share: float = 0.1) -> None:
        super().__init__()
        self.input = AlignedLinear(3 * channels, hidden)
        self.output = nn.Linear(hidden, 1)
        with torch.no_grad():
            self.output.weight.mul_(0.1)
            self.output.bias.fill_(math.log(share / (1.0 - share)))

    def forward(self, z: Tensor) -> Tensor:
        """The log-odds that there is an edge: `[batch, pairs]` for `z: [batch, pairs, channels]`."""
        seen = torch.cat([z, F.elu(z), F.elu(-z)], dim=-1).to(self.input.weight.dtype)
        odds: Tensor = self.output(F.gelu(self.input(seen)))
        return odds.squeeze(-1).to(z.dtype)


class VirtualEdges(nn.Module):
    """One learned logistic for "no edge", and a network that tells it from the latents of edges.

    Args:
        channels: latent channels of an edge.
        share: of pairs that have an edge.
    """

    def __init__(self, channels: int, share: float = 0.1) -> None:
        super().__init__()
        self.channels = channels
        self.noise = Logistic()
        self.mean = nn.Parameter(torch.zeros(channels))
        self.log_scale = nn.Parameter(torch.zeros(channels))
        self.detector = EdgeDetector(channels, share=share)

    def encode(self, shape: tuple[int, int], generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """Latents `[batch, pairs, channels]` and their log-density, whose `shape` is `[batch, pairs]`."""
        noise = self.noise.sample((*shape, self.channels), generator, self.mean.device)
        log_scale = torch.tanh(self.log_scale)
        log_density = (self.noise.log_prob(noise) - log_scale).sum(-1)
        return self.mean + noise * log_scale.exp(), log_density

    def log_posterior(self, z: Tensor, present: Tensor) -> Tensor:
        """`log p(edge or none | z)` of every pair: `[batch, pairs]`."""
        odds = self.detector(z)
        return F.logsigmoid(torch.where(present, odds, -odds))
