"""What models of whole graphs share."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from catnf.context import Context, JointContext
from catnf.errors import InputError
from catnf.flows.base import Logistic
from catnf.flows.coupling import unconverged_roots
from catnf.flows.joint import GraphLatents
from catnf.models.model import Bound, Model, check_categories
from catnf.pairs import pad_graphs, pair_count, pair_layout

_STRIDES = {"cuda": 16, "cpu": 4}  # sampled graphs are padded to multiples of this; a GPU wants them together


class GraphModel(Model):
    """A distribution over whole graphs.

    Graphs are `x: [batch, nodes + pairs]`: categories of nodes, then of all pairs in the order of
    `catnf.pairs`, where 0 is no edge.

    Args:
        categories: of nodes.
        kinds: of edges.
        channels: of a node and of a pair in the base distribution.
        slots: how many edges a graph has at most; sampled graphs lose those that are most in doubt.
        sizes: how likely graphs of 0, 1, 2, ... nodes are, `[largest + 1]`.
    """

    size_frequencies: Tensor

    def __init__(
        self, categories: int, kinds: int, channels: tuple[int, int], slots: int, sizes: Tensor
    ) -> None:
        super().__init__()
        self.categories, self.kinds, self.channels, self.slots = categories, kinds, channels, slots
        self.base = Logistic()
        self.register_buffer("size_frequencies", sizes)

    def decode(self, z: GraphLatents, ctx: Context) -> Tensor:
        """From the base distribution back to graphs `[batch, nodes + pairs]`."""
        raise NotImplementedError

    def encode_bound(
        self, x: Tensor, ctx: Context, generator: torch.Generator | None
    ) -> tuple[GraphLatents, Bound]:
        """Latents in the base distribution, and the bound."""
        raise NotImplementedError

    def bound(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Bound:
        return self.encode_bound(x, ctx, generator)[1]

    @torch.no_grad()
    def sample(
        self, ctx: Context, generator: torch.Generator | None = None, temperature: float = 1.0
    ) -> Tensor:
        # Graphs of about one size at a time, padded to that: the work grows with its square.
        stride = _STRIDES.get(self.size_frequencies.device.type, _STRIDES["cpu"])
        paddings = ((ctx.counts(self.size_frequencies).long() + stride - 1) // stride * stride).cpu()
        x = torch.zeros(ctx.batch, ctx.elements + pair_count(ctx.elements), dtype=torch.int64)
        for padding in torch.unique(paddings).tolist():
            chosen = (paddings == padding).nonzero().squeeze(1)
            nodes = min(padding, ctx.elements)
            part = ctx.take(chosen).narrow(nodes)
            x[chosen] = pad_graphs(super().sample(part, generator, temperature).cpu(), nodes, ctx.elements)
        failed = unconverged_roots(self)
        if failed:
            warnings.warn(f"{failed} latents were inverted inexactly while sampling.", stacklevel=3)
        return x.to(self.size_frequencies.device)

    def draw(self, ctx: Context, generator: torch.Generator | None, temperature: float = 1.0) -> Tensor:
        device = self.size_frequencies.device if generator is None else generator.device
        pairs = ctx.pairs()
        node_shape = (ctx.batch, ctx.elements, self.channels[0])
        pair_shape = (ctx.batch, pairs.elements, self.channels[1])
        nodes = ctx.hide(self.base.sample(node_shape, generator, device, temperature))
        edges = pairs.hide(self.base.sample(pair_shape, generator, device, temperature))
        return self.decode(GraphLatents(nodes, edges), ctx)

    @torch.no_grad()
    def encode(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> GraphLatents:
        """One draw of the latents of graphs `x: [batch, nodes + pairs]`, from where `decode` leads back."""
        self.check(x, ctx)
        return self.encode_bound(x, ctx, generator)[0]

    @torch.no_grad()
    def reconstruct(self, x: Tensor, ctx: Context, generator: torch.Generator | None = None) -> Tensor:
        back = self.decode(self.encode(x, ctx, generator), ctx)
        unconverged_roots(self)  # so that the next samples are not blamed for these
        return back

    def draw_context(self, count: int, generator: torch.Generator) -> Context:
        """Sizes drawn from how often they occurred in training, as a context of `count` graphs."""
        largest = len(self.size_frequencies) - 1
        sizes = torch.multinomial(self.size_frequencies.float(), count, replacement=True, generator=generator)
        mask = torch.arange(largest, device=sizes.device) < sizes.unsqueeze(1)
        return Context(count, largest, mask)

    def check(self, x: Tensor, ctx: Context) -> None:
        wanted = (ctx.batch, ctx.elements + pair_count(ctx.elements))
        if tuple(x.shape) != wanted:
            raise InputError(f"Graphs have shape {tuple(x.shape)} but their context asks for {wanted}.")
        check_categories(x[:, : ctx.elements], ctx, self.categories)
        pairs = ctx.pairs()
        check_categories(x[:, ctx.elements :], pairs, self.kinds + 1)
        most = int((pairs.hide(x[:, ctx.elements :]) > 0).sum(1).max())
        if most > self.slots:
            raise InputError(f"A graph has {most} edges; this model knows graphs of up to {self.slots}.")


class Bonds(NamedTuple):
    """The edges that a batch of graphs has, as lists.

    Attributes:
        place: of every edge among all pairs, `[batch, slots]`.
        present: which slots hold an edge, `[batch, slots]`.
        joint: what networks over these edges look at.
    """

    place: Tensor
    present: Tensor
    joint: JointContext


def find_bonds(odds: Tensor, ctx: Context, slots: int) -> Bonds:
    """The pairs with positive `odds: [batch, pairs]`, at most `slots` of them, the surest first, as lists."""
    surest, place = odds.topk(min(slots, odds.shape[1]), dim=1)
    present = surest > 0
    layout = pair_layout(ctx.elements, odds.device)
    ends = torch.stack([layout.first[place], layout.second[place]], dim=1)  # [batch, 2, slots]
    incidence = F.one_hot(ends, ctx.elements) * present[:, None, :, None]
    edges = Context(ctx.batch, place.shape[1], present)
    return Bonds(place, present, JointContext(ctx, edges, incidence.float()))


def place_bonds(virtual: Tensor, edges: Tensor, bonds: Bonds) -> Tensor:
    """`virtual: [batch, pairs, channels]` with `edges: [batch, slots, channels]` in their places."""
    # Empty slots are written to a place behind the last pair.
    behind = F.pad(virtual, (0, 0, 0, 1))
    place = torch.where(bonds.present, bonds.place, virtual.shape[1])
    return behind.scatter(1, place.unsqueeze(-1).expand_as(edges), edges)[:, :-1]
