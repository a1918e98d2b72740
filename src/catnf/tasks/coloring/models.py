"""The paper's models of graph colorings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from catnf.encodings import MixtureEncoding
from catnf.errors import InputError
from catnf.flows import ActNorm
from catnf.flows.coupling import MixtureCoupling
from catnf.flows.masks import WholeMask
from catnf.flows.rounds import FLAGS, Rounds, RoundStep
from catnf.flows.step import Conditioner, affine_steps, mixture_steps
from catnf.flows.transform import Sequential, Transform
from catnf.models import CategoricalFlow, FlowInRounds, Model
from catnf.models.baselines import AutoregressiveColoring, GraphVAE
from catnf.models.baselines.autoregressive import Order
from catnf.nets import GraphAttention
from catnf.tasks.coloring.data import GraphColoring
from catnf.tasks.task import Task

_REACH = 3
"""Nodes of a round are farther apart than so many edges. With 2 many choose together what does not fit."""


@dataclass(frozen=True)
class ColoringModelConfig:
    """Sizes of a model of colorings; the defaults are the paper's for small graphs."""

    kind: Literal["graphcnf", "graph-vae", "graph-autoregressive"] = "graphcnf"
    couplings: Literal["mixture", "affine", "rounds"] = "mixture"  # rounds: mixtures, nodes in turns
    channels: int = 2  # latent channels of a node, flow and auto-encoder
    layers: int = 8  # couplings of the flow; rounds at most, where nodes take turns
    mixtures: int = 8  # logistics in a mixture coupling
    hidden: int = 384  # width of the graph attention networks
    blocks: int = 4  # layers of such a network
    heads: int = 4  # attention heads
    expansion: int = 2  # width of all heads together, in widths of the network
    reach: float = 30.0  # how many times farther than other weights the encoding's tables move in a step
    features: int = 64  # width of the embedding of colors that baselines see
    order: Order = "largest-first"  # in which the autoregressive model colors nodes

    def __post_init__(self) -> None:
        for name in ("layers", "mixtures", "hidden", "blocks", "heads", "expansion", "features"):
            if getattr(self, name) < 1:
                raise InputError(f"model.{name} is {getattr(self, name)}; give at least 1.")
        if self.hidden % 4 or self.expansion * self.hidden % self.heads:
            raise InputError(
                f"model.hidden is {self.hidden}; choose a multiple of 4 that {self.heads} heads can share."
            )
        if not self.reach > 0:
            raise InputError(f"model.reach is {self.reach}; give a number above 0.")
        rounds = self.kind == "graphcnf" and self.couplings == "rounds"
        if rounds and self.channels != 1:
            raise InputError(f"model.channels is {self.channels}; with rounds set it to 1.")
        if not rounds and self.channels < 2:
            raise InputError(f"model.channels is {self.channels}; a channel mask needs at least 2.")

    def make(self, task: Task) -> Model:
        """A freshly initialized model for `task`."""
        if not isinstance(task, GraphColoring):
            raise InputError(
                f"Model {self.kind} is for graph colorings, but {task.name} has none; choose another kind."
            )
        make, colors = self._networks(), task.categories
        match self.kind:
            case "graphcnf":
                encoding = MixtureEncoding(task.frequencies(), self.channels, reach=self.reach)
                if self.couplings == "rounds":
                    return FlowInRounds(encoding, self._rounds(task, encoding))
                return CategoricalFlow(encoding, Sequential([*self._steps(), ActNorm(self.channels)]))
            case "graph-vae":
                encoder, decoder = make(self.features, 2 * self.channels), make(self.channels, colors)
                return GraphVAE(colors, self.channels, self.features, encoder, decoder)
            case "graph-autoregressive":
                return AutoregressiveColoring(colors, make(self.features, colors), self.features, self.order)
            case _:
                raise InputError(f"There is no model of colorings {self.kind!r}.")

    def _steps(self) -> Iterable[Transform]:
        if self.couplings == "affine":
            return affine_steps(self.channels, self.layers, self._networks())
        return mixture_steps(self.channels, self.layers, self.mixtures, self._networks())

    def _rounds(self, task: GraphColoring, encoding: MixtureEncoding) -> Rounds:
        outputs = MixtureCoupling.outputs(self.channels, WholeMask(), self.mixtures)
        network = self._networks(task.colors + FLAGS)(self.channels, outputs)
        step = RoundStep(network, MixtureCoupling(None, self.channels, WholeMask(), self.mixtures))
        return Rounds(step, self.layers, task.nodes, task.colors - 1, _REACH, encoding.decode)

    def _networks(self, features: int = 0) -> Conditioner:
        def make(inputs: int, outputs: int) -> GraphAttention:
            widths = (self.hidden, self.blocks, self.heads)
            return GraphAttention(inputs, outputs, features, *widths, expansion=self.expansion)

        return make
