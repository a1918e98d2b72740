"""Which pairs of nodes have an edge, of graphs that grow node by node."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from catnf.context import Context, SequenceContext
from catnf.encodings import SpacedEncoding
from catnf.flows.base import Logistic
from catnf.flows.category_coupling import categories_at, quantiles_of
from catnf.models.model import Bound
from catnf.nets.growth import GrowthNetwork
from catnf.pairs import pair_layout
from catnf.repetition import Index, at, put, repeat
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

    def bound(
        self, connected: Tensor, ctx: Context, generator: torch.Generator | None
    ) -> tuple[Tensor, Bound]:
        """When the turn of every node is, `[batch, nodes]`, and the bound.

        Args:
            connected: `[batch, pairs]`, true where there is an edge.
            ctx: of nodes.
            generator: of noise.
        """
        keys, _, _, _, bound = self._encode(connected, ctx, generator)
        return keys, bound

    def encode(
        self, connected: Tensor, ctx: Context, generator: torch.Generator | None
    ) -> tuple[Tensor, Bound]:
        """Latents `[batch, nodes, channels]` in the base distribution, and the bound.

        Arguments are those of `bound`.
        """
        keys, order, steps, z, bound = self._encode(connected, ctx, generator)
        logits = torch.zeros_like(z)

        # Step by step as on the way back, where all at once would round differently, and so lose a step
        # that is next to another one.
        def follow(place: Index, slot: int, odds: Tensor) -> Tensor:
            logit, _ = quantiles_of(at(z[..., slot], 1, place).squeeze(1), odds)
            put(logits[..., slot], 1, place, logit.unsqueeze(1))
            return at(steps[..., slot], 1, place).squeeze(1)

        self._walk(follow, z, ctx, every_slot=True)
        ordered = logits * math.exp(Logistic.log_scale)
        latents = torch.zeros_like(ordered).scatter(1, order.unsqueeze(-1).expand_as(ordered), ordered)
        return ctx.hide(torch.cat([keys.unsqueeze(-1), latents], dim=-1)), bound

    def decode(self, z: Tensor, ctx: Context) -> Tensor:
        """1 where there is an edge and -1 elsewhere, `[batch, pairs]`, of `z: [batch, nodes, channels]`."""
        keys = z[..., 0] if ctx.mask is None else z[..., 0].masked_fill(~ctx.mask, torch.inf)
        order = keys.argsort(1)
        latents = z[..., 1:]
        ordered = latents.gather(1, order.unsqueeze(-1).expand_as(latents)) * math.exp(-Logistic.log_scale)

        def choose(place: Index, slot: int, odds: Tensor) -> Tensor:
            return categories_at(at(ordered[..., slot], 1, place).squeeze(1), odds)

        grown = self._walk(choose, ordered, ctx)
        place = order.argsort(1)
        rows = grown.gather(1, place.unsqueeze(-1).expand_as(grown))
        adjacency = rows.gather(2, place.unsqueeze(1).expand_as(grown))
        first, second, _ = pair_layout(ctx.elements, keys.device)
        return torch.where(adjacency[:, first, second], 1.0, -1.0)

    def _encode(
        self, connected: Tensor, ctx: Context, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Bound]:
        """Keys and the order of nodes `[batch, nodes]`, their steps in it, the steps' latents, and the bound.

        Steps and latents are `[batch, nodes, slots]`.
        """
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
        z = encoded.z.view(steps.shape)
        return keys, order, steps, z, Bound(value, encoded.log_posterior)

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
            torch.unflatten(torch.stack(paths, dim=1), 1, (nodes, slots + 1)),
            torch.unflatten(torch.stack(allowed, dim=1), 1, (nodes, slots)),
        )

    def _take(self, path: Path, step: Tensor, slot: int, place: Tensor) -> tuple[Path, Tensor, Tensor]:
        """The path after a step, where its edge leads to, and what the next step must be told."""
        if slot > 0:
            return *self.close(path, step), step
        return *self.attach(path, step, place), torch.full_like(step, -1)

    def _walk(
        self,
        choose: Callable[[Index, int, Tensor], Tensor],
        like: Tensor,
        ctx: Context,
        every_slot: bool = False,
    ) -> Tensor:
        """Edges between places, `[batch, nodes, nodes]`, of graphs that grow by the steps that are chosen.

        Args:
            choose: the steps `[batch]` at a place and slot, given their odds `[batch, categories]`.
            like: of the device and dtype to compute with, `[batch, nodes, slots]`.
            ctx: of nodes.
            every_slot: ask for steps even where there is no choice left.
        """
        batch, nodes, slots = like.shape
        memory = self.network.history.begin(SequenceContext(batch, nodes, ctx.mask), like)
        path = tuple(part.clone() for part in begin_path(batch, self.network.categories, like.device))
        places = torch.arange(nodes, device=like.device)
        before = like.new_zeros(batch, 1, self.network.history.input.in_features)
        real = places < ctx.counts(like).unsqueeze(1)
        lower = torch.zeros(batch, nodes, nodes, dtype=torch.bool, device=like.device)

        def grow(place: Index) -> None:
            h = self.network.advance(before, memory, place)
            there = at(real, 1, place)
            now: Path = (path[0], path[1], path[2], path[3])
            steps = torch.zeros(batch, 1, slots, dtype=torch.int64, device=like.device)
            ends = torch.zeros_like(real)
            last = None
            for slot in range(slots):
                seen, allowed = self.describe(now, last)
                odds = self.network.ask(h, seen.unsqueeze(1), slot).squeeze(1).to(like.dtype)
                step = choose(place, slot, odds.masked_fill(~allowed, _NEVER))
                steps[:, 0, slot] = step = torch.where(there.squeeze(1), step, 0)
                now, other, last = self._take(now, step, slot, at(places, 0, place).squeeze(0))
                ends = ends | ((places == other.unsqueeze(1)) & there)
                if slot and isinstance(place, int) and not every_slot and not step.any():
                    break  # no further ring may follow
            put(lower, 1, place, ends.unsqueeze(1))
            before.copy_(self.network.describe(steps, self.describe(now, None)[0].unsqueeze(1)))
            for old, new in zip(path, now, strict=True):
                old.copy_(new)

        repeat(grow, nodes, like.device)
        return lower | lower.mT
