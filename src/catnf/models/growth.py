"""Which pairs of nodes have an edge, of graphs that grow node by node."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from catnf.context import Context, SequenceContext
from catnf.encodings import SpacedEncoding
from catnf.flows.base import Logistic
from catnf.flows.category_coupling import categories_at
from catnf.flows.mixture import mixture_logit
from catnf.models.model import Bound
from catnf.nets.growth import GrowthNetwork
from catnf.pairs import pair_layout
from catnf.traversal import Attach, CloseRing, DescribePath, Path, begin_path, traverse

_NEVER = -1e4  # logit of a step that is not allowed


class Grown(NamedTuple):
    """What is known along a traversal.

    Attributes:
        paths: `[batch, nodes, slots + 1, FEATURES]`, before every step of a node and after all of them.
        allowed: which steps were, `[batch, nodes, slots, categories]`.
    """

    paths: Tensor
    allowed: Tensor


class GrowthFlow(nn.Module):
    """An autoregressive flow over the steps of a random traversal, see `catnf.traversal`.

    The first latent of a node says when its turn is: nodes come by its size, so that a graph does not depend
    on the order in which its nodes are given. The others are its steps.

    Args:
        network: predicts steps.
    """

    def __init__(self, network: GrowthNetwork) -> None:
        super().__init__()
        self.network = network
        categories = network.categories
        self.steps = SpacedEncoding(categories)
        self.attach, self.close, self.describe = Attach(), CloseRing(), DescribePath(categories)
        self.base = Logistic()
        self.channels = 1 + network.slots

    def training_bound(
        self, connected: Tensor, ctx: Context, generator: torch.Generator | None
    ) -> tuple[Tensor, Bound]:
        """When the turn of every node is, `[batch, nodes]`, and the bound.

        Args:
            connected: `[batch, pairs]`, true where there is an edge.
            ctx: of nodes.
            generator: of noise.
        """
        keys, _, _, bound = self._encode(connected, ctx, generator)
        return keys, bound

    def encode(
        self, connected: Tensor, ctx: Context, generator: torch.Generator | None
    ) -> tuple[Tensor, Bound]:
        """Latents `[batch, nodes, channels]` in the base distribution, and the bound.

        Arguments are those of `training_bound`.
        """
        keys, order, (z, logits), bound = self._encode(connected, ctx, generator)
        logit, _ = mixture_logit(z.squeeze(-1), self.steps.anchors.mixture(logits, 0))
        ordered = logit.unflatten(1, (ctx.elements, -1)) * math.exp(Logistic.log_scale)
        latents = torch.zeros_like(ordered).scatter(1, order.unsqueeze(-1).expand_as(ordered), ordered)
        return ctx.hide(torch.cat([keys.unsqueeze(-1), latents], dim=-1)), bound

    def decode(self, z: Tensor, ctx: Context) -> Tensor:
        """1 where there is an edge and -1 elsewhere, `[batch, pairs]`, of `z: [batch, nodes, channels]`."""
        keys = z[..., 0] if ctx.mask is None else z[..., 0].masked_fill(~ctx.mask, torch.inf)
        order = keys.argsort(1)
        latents = z[..., 1:]
        grown = self._grow(latents.gather(1, order.unsqueeze(-1).expand_as(latents)), ctx)
        place = order.argsort(1)
        rows = grown.gather(1, place.unsqueeze(-1).expand_as(grown))
        adjacency = rows.gather(2, place.unsqueeze(1).expand_as(grown))
        first, second, _ = pair_layout(ctx.elements, keys.device)
        return torch.where(adjacency[:, first, second], 1.0, -1.0)

    def _encode(
        self, connected: Tensor, ctx: Context, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor], Bound]:
        """Keys and the order of nodes `[batch, nodes]`, latents and logits of all steps, and the bound."""
        nodes, slots = ctx.elements, self.network.slots
        diagonal = torch.eye(nodes, dtype=torch.bool, device=connected.device)
        adjacency = connected[:, pair_layout(nodes, connected.device).matrix] & ~diagonal
        present = ctx.real(connected)
        order, steps, log_chance, told = traverse(adjacency, present, slots, generator)
        noise = self.base.sample((ctx.batch, nodes), generator, connected.device)
        sorted_noise = noise.masked_fill(~present, torch.inf).sort(1).values
        keys = ctx.hide(torch.zeros_like(noise).scatter(1, order, sorted_noise))
        ordered = SequenceContext(ctx.batch, nodes, ctx.mask)
        grown = self._replay(steps)
        logits = self.network(steps, grown.paths, ordered).to(noise.dtype).masked_fill(~grown.allowed, _NEVER)
        every = Context(ctx.batch, nodes * slots, present.repeat_interleave(slots, dim=1))
        encoded = self.steps.encode(steps.flatten(1), every, generator)
        logits = logits.flatten(1, 2)
        log_weights = torch.log_softmax(logits, dim=-1)
        log_flow = every.total(
            torch.logsumexp(log_weights + self.steps.anchors.joint_log_densities(encoded.z), dim=-1)
        )
        # All orders are as likely before the graph is known, and keys say nothing else.
        log_orders = torch.lgamma(ctx.counts(noise) + 1.0)
        value = log_flow + encoded.log_weight - log_orders - log_chance
        value = value.masked_fill(~told, -torch.inf)  # a walk whose steps do not tell the graph
        return keys, order, (encoded.z, logits), Bound(value, encoded.log_posterior)

    def _replay(self, steps: Tensor) -> Grown:
        """The paths that `steps: [batch, nodes, slots]` lead along."""
        batch, nodes, slots = steps.shape
        path = begin_path(batch, self.network.categories, steps.device)
        places = torch.arange(nodes, device=steps.device)
        paths, allowed = [], []
        for place in range(nodes):
            before = None
            for slot in range(slots):
                seen, may = self.describe(path, before)
                paths.append(seen)
                allowed.append(may)
                path, _, before = self._take(path, steps[:, place, slot], slot, places[place])
            paths.append(self.describe(path, None)[0])
        return Grown(
            torch.stack(paths, dim=1).unflatten(1, (nodes, slots + 1)),
            torch.stack(allowed, dim=1).unflatten(1, (nodes, slots)),
        )

    def _take(self, path: Path, step: Tensor, slot: int, place: Tensor) -> tuple[Path, Tensor, Tensor]:
        """The path after a step, where its edge leads to, and what the next step must be told."""
        if slot > 0:
            return *self.close(path, step), step
        return *self.attach(path, step, place), torch.full_like(step, -1)

    def _grow(self, z: Tensor, ctx: Context) -> Tensor:
        """Edges between places, `[batch, nodes, nodes]`, of base latents in order `[batch, nodes, slots]`."""
        batch, nodes, slots = z.shape
        memory = self.network.history.begin(SequenceContext(batch, nodes, ctx.mask), z)
        path = begin_path(batch, self.network.categories, z.device)
        places = torch.arange(nodes, device=z.device)
        before = z.new_zeros(batch, 1, self.network.history.input.in_features)
        quantiles, real = z * math.exp(-Logistic.log_scale), places < ctx.counts(z).unsqueeze(1)
        edges = []
        for place in range(nodes):
            h, memory = self.network.advance(before, memory)
            steps = torch.zeros(batch, 1, slots, dtype=torch.int64, device=z.device)
            ends = torch.zeros(batch, nodes, dtype=torch.bool, device=z.device)
            last = None
            for slot in range(slots):
                seen, allowed = self.describe(path, last)
                logits = self.network.ask(h, seen.unsqueeze(1), slot).squeeze(1).to(z.dtype)
                step = categories_at(quantiles[:, place, slot], logits.masked_fill(~allowed, _NEVER))
                steps[:, 0, slot] = step = torch.where(real[:, place], step, 0)
                path, other, last = self._take(path, step, slot, places[place])
                ends = ends | ((places == other.unsqueeze(1)) & real[:, place, None])
                if slot and not step.is_cuda and not step.any():
                    break  # no further ring may follow; a GPU would have to wait for the answer
            before = self.network.describe(steps, self.describe(path, None)[0].unsqueeze(1)).to(z.dtype)
            edges.append(ends)
        lower = torch.stack(edges, dim=1)
        return lower | lower.mT
