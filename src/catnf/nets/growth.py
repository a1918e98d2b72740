"""What grows next on a graph."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from catnf.context import SequenceContext
from catnf.nets.linear import AlignedLinear
from catnf.nets.network import Network
from catnf.nets.readout import Readout
from catnf.nets.sequence import Memory
from catnf.nets.text_transformer import CausalTransformer
from catnf.repetition import Index
from catnf.traversal import FEATURES


class GrowthNetwork(Network):
    """Logits of the steps of a node, given the nodes and steps before, and the path that they lead to.

    Args:
        categories: of steps.
        slots: steps of a node.
        hidden: width.
        layers: of a transformer over the nodes before.
        heads: attention heads.
    """

    def __init__(self, categories: int, slots: int, hidden: int, layers: int, heads: int) -> None:
        super().__init__()
        self.categories, self.slots = categories, slots
        self.history = CausalTransformer(FEATURES + slots * categories, hidden, layers, heads)
        self.question = AlignedLinear(FEATURES + slots, hidden)
        self.readout = Readout(hidden, categories)

    def forward(self, steps: Tensor, paths: Tensor, ctx: SequenceContext) -> Tensor:
        """All nodes at once: `[batch, nodes, slots, categories]`.

        Args:
            steps: `[batch, nodes, slots]`.
            paths: `[batch, nodes, slots + 1, FEATURES]`, before every step of a node and after all of them.
            ctx: of the nodes, in their order.
        """
        h = self.history(self.describe(steps, paths[:, :, -1]), ctx)
        slots = F.one_hot(torch.arange(self.slots, device=steps.device), self.slots)
        return self._answer(h.unsqueeze(2), paths[:, :, :-1], slots.expand(*steps.shape, -1))

    def describe(self, steps: Tensor, path: Tensor) -> Tensor:
        """A node as those after it see it, given `path: [batch, nodes, FEATURES]` that ends in it."""
        return torch.cat([path, F.one_hot(steps, self.categories).flatten(-2)], dim=-1)

    def advance(self, before: Tensor, memory: Memory, index: Index) -> Tensor:
        """The state of the node `index`, given the description `[batch, 1, ...]` of the node before."""
        return self.history.advance(before, memory, index)

    def ask(self, h: Tensor, path: Tensor, slot: int) -> Tensor:
        """Logits `[batch, 1, categories]` of one step, given the state and `path: [batch, 1, FEATURES]`."""
        slots = F.one_hot(h.new_full(path.shape[:-1], slot).long(), self.slots)
        return self._answer(h, path, slots)

    def _answer(self, h: Tensor, path: Tensor, slots: Tensor) -> Tensor:
        seen = torch.cat([path, slots], dim=-1).to(h.dtype)
        out: Tensor = self.readout(h + self.question(seen))
        return out
