"""Flows over the nodes and the edges of graphs together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, cast

import torch
from torch import Tensor, nn

from catnf.context import JointContext
from catnf.flows.actnorm import ActNorm
from catnf.flows.coupling import MixtureCoupling
from catnf.flows.linear import InvertibleLinear
from catnf.flows.masks import ChannelMask


class GraphLatents(NamedTuple):
    """Latents of a batch of graphs.

    Attributes:
        nodes: `[batch, nodes, node channels]`.
        edges: `[batch, edges, edge channels]`, one for every unordered pair that there is an edge between.
    """

    nodes: Tensor
    edges: Tensor


@dataclass(frozen=True)
class JointSizes:
    """Channels and logistics of the couplings of nodes and edges."""

    node_channels: int = 6
    edge_channels: int = 2
    node_mixtures: int = 16
    edge_mixtures: int = 8

    @property
    def inputs(self) -> tuple[int, int]:
        """Channels of nodes and edges that a network sees."""
        mask = ChannelMask()
        return mask.conditioner_channels(self.node_channels), mask.conditioner_channels(self.edge_channels)

    @property
    def outputs(self) -> tuple[int, int]:
        """Numbers that a network predicts for nodes and edges."""
        return (
            MixtureCoupling.outputs(self.node_channels, ChannelMask(), self.node_mixtures),
            MixtureCoupling.outputs(self.edge_channels, ChannelMask(), self.edge_mixtures),
        )


class JointNetwork(Protocol):
    """`(kept nodes, kept edges, ctx) -> (predictions for nodes, predictions for edges)`."""

    def __call__(self, nodes: Tensor, edges: Tensor, ctx: JointContext) -> tuple[Tensor, Tensor]: ...


class JointStep(nn.Module):
    """Activation norm, invertible linear map and mixture coupling, for nodes and edges at once.

    One network sees the kept channels of both and predicts how the other channels of both change.

    Args:
        sizes: channels and mixtures.
        network: a `JointNetwork` with `sizes.inputs` and `sizes.outputs`.
    """

    def __init__(self, sizes: JointSizes, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.node_norm, self.edge_norm = ActNorm(sizes.node_channels), ActNorm(sizes.edge_channels)
        self.node_linear = InvertibleLinear(sizes.node_channels)
        self.edge_linear = InvertibleLinear(sizes.edge_channels)
        mask = ChannelMask()
        self.node_coupling = MixtureCoupling(None, sizes.node_channels, mask, sizes.node_mixtures)
        self.edge_coupling = MixtureCoupling(None, sizes.edge_channels, mask, sizes.edge_mixtures)

    def forward(self, z: GraphLatents, ctx: JointContext) -> tuple[GraphLatents, Tensor]:
        """Map `z` and give the log-determinant of the Jacobian, `[batch]`."""
        nodes, first = self.node_norm(z.nodes, ctx.nodes)
        nodes, second = self.node_linear(nodes, ctx.nodes)
        edges, third = self.edge_norm(z.edges, ctx.edges)
        edges, fourth = self.edge_linear(edges, ctx.edges)
        for_nodes, for_edges = self._predict(nodes, edges, ctx)
        nodes, fifth = self.node_coupling.change(nodes, for_nodes, ctx.nodes)
        edges, sixth = self.edge_coupling.change(edges, for_edges, ctx.edges)
        return GraphLatents(nodes, edges), first + second + third + fourth + fifth + sixth

    def inverse(self, z: GraphLatents, ctx: JointContext) -> GraphLatents:
        """Undo `forward`."""
        for_nodes, for_edges = self._predict(z.nodes, z.edges, ctx)
        nodes = self.node_coupling.restore(z.nodes, for_nodes, ctx.nodes)
        edges = self.edge_coupling.restore(z.edges, for_edges, ctx.edges)
        nodes = self.node_norm.inverse(self.node_linear.inverse(nodes, ctx.nodes), ctx.nodes)
        edges = self.edge_norm.inverse(self.edge_linear.inverse(edges, ctx.edges), ctx.edges)
        return GraphLatents(nodes, edges)

    def initialize(self, z: GraphLatents, ctx: JointContext) -> GraphLatents:
        """Set data-dependent parameters from latents `z`, and return what `forward` makes of them."""
        self.node_norm.initialize(z.nodes, ctx.nodes)
        self.edge_norm.initialize(z.edges, ctx.edges)
        return self.forward(z, ctx)[0]

    def _predict(self, nodes: Tensor, edges: Tensor, ctx: JointContext) -> tuple[Tensor, Tensor]:
        network = cast("JointNetwork", self.network)
        return network(self.node_coupling.mask.kept(nodes), self.edge_coupling.mask.kept(edges), ctx)


class JointFlow(nn.Module):
    """Joint steps one after another."""

    def __init__(self, steps: Iterable[JointStep]) -> None:
        super().__init__()
        self.steps = nn.ModuleList(steps)

    def __iter__(self) -> Iterator[JointStep]:
        return iter(cast("Iterable[JointStep]", self.steps))

    def forward(self, z: GraphLatents, ctx: JointContext) -> tuple[GraphLatents, Tensor]:
        """Map `z` and give the log-determinant of the Jacobian, `[batch]`."""
        logdet = torch.zeros_like(ctx.nodes.counts(z.nodes))
        for step in self:
            z, change = step(z, ctx)
            logdet = logdet + change
        return z, logdet

    def inverse(self, z: GraphLatents, ctx: JointContext) -> GraphLatents:
        """Undo `forward`."""
        for step in reversed(list(self)):
            z = step.inverse(z, ctx)
        return z

    @torch.no_grad()
    def initialize(self, z: GraphLatents, ctx: JointContext) -> GraphLatents:
        """Set data-dependent parameters from latents `z`, and return what `forward` makes of them."""
        for step in self:
            z = step.initialize(z, ctx)
        return z
