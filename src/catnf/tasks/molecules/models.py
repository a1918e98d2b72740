"""The paper's model of molecules, and one of molecules that grow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from catnf.encodings import MixtureEncoding, SpacedEncoding
from catnf.encodings.virtual import VirtualEdges
from catnf.errors import InputError
from catnf.flows.category_coupling import CategoryCoupling
from catnf.flows.joint import JointFlow, JointSizes, JointStep
from catnf.flows.rounds import FLAGS, Rounds, RoundStep
from catnf.flows.step import mixture_steps
from catnf.models import FlowInRounds
from catnf.models.graph_cnf import GraphCNF
from catnf.models.graph_model import GraphModel
from catnf.models.growth import GrowthFlow
from catnf.models.staged_graph import KIND_FEATURES, StagedGraphFlow, node_features
from catnf.nets import GraphAttention
from catnf.nets.edge_gnn import EdgeGNN
from catnf.nets.growth import GrowthNetwork
from catnf.nets.rgcn import RelationalGCN
from catnf.tasks.molecules.data import Molecules
from catnf.tasks.molecules.vocabulary import BONDS
from catnf.tasks.task import Task

_KIND_ROUNDS, _ATOM_ROUNDS = 14, 10
"""Rounds at most. Of 1,000 molecules of Zinc250k none needs more than 13 for its bonds, 9 for its atoms."""


@dataclass(frozen=True)
class MoleculeModelConfig:
    """Sizes of a model of molecules; the defaults are the paper's."""

    kind: Literal["molecule-graphcnf", "molecule-growth"] = "molecule-graphcnf"
    node_channels: int = 6  # latent channels of an atom
    edge_channels: int = 2  # and of a bond
    node_mixtures: int = 16  # logistics in the couplings of atoms
    edge_mixtures: int = 8  # and of bonds
    node_layers: int = 4  # couplings of the first step, atoms given bonds
    edge_layers: int = 6  # of the second, atoms and kinds of bonds
    pair_layers: int = 6  # of the third, atoms and all pairs; of the transformer, where molecules grow
    node_blocks: int = 3  # layers of a network of the first step
    edge_blocks: int = 4  # of the second; of those in rounds, where molecules grow
    pair_blocks: int = 4  # of the third
    node_hidden: int = 256  # width of features of atoms
    edge_hidden: int = 128  # and of bonds
    heads: int = 4  # attention heads
    most_bonds: int = 6  # of an atom, where molecules grow
    expansion: int = 2  # width of attention over that of features, there
    reach: float = 30.0  # how many times farther than other weights the encodings' tables move in a step

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, int) and value < 1:
                raise InputError(f"model.{name} is {value}; give at least 1.")
        if min(self.node_channels, self.edge_channels) < 2:
            raise InputError(
                "A channel mask needs at least 2 of model.node_channels and model.edge_channels."
            )
        if self.node_hidden % self.heads:
            raise InputError(
                f"model.node_hidden is {self.node_hidden}; choose a multiple of {self.heads} heads."
            )
        if not self.reach > 0:
            raise InputError(f"model.reach is {self.reach}; give a number above 0.")

    def make(self, task: Task) -> GraphModel:
        """A freshly initialized model for `task`."""
        if not isinstance(task, Molecules):
            raise InputError(
                f"Model {self.kind} is for molecules, but {task.name} has none; choose another kind."
            )
        return self._paper(task) if self.kind == "molecule-graphcnf" else self._growth(task)

    def _paper(self, task: Molecules) -> GraphCNF:
        """All latents together, atoms and kinds of bonds as the paper encodes them."""
        known = task.statistics()
        kinds = len(BONDS) - 1

        def relational(inputs: int, outputs: int) -> RelationalGCN:
            return RelationalGCN(inputs, outputs, kinds, self.node_hidden, self.node_blocks)

        return GraphCNF(
            MixtureEncoding(known.atoms, self.node_channels, reach=self.reach),
            MixtureEncoding(known.bonds, self.edge_channels, reach=self.reach),
            VirtualEdges(self.edge_channels, known.bonded),
            mixture_steps(self.node_channels, self.node_layers, self.node_mixtures, relational),
            self._joint(self.edge_layers, self.edge_blocks, all_pairs=False),
            self._joint(self.pair_layers, self.pair_blocks, all_pairs=True),
            task.bonds,
            known.sizes,
        )

    def _growth(self, task: Molecules) -> StagedGraphFlow:
        """Bonds atom by atom, then their kinds and atoms in rounds, by a network for each."""
        known, kinds = task.statistics(), len(BONDS) - 1

        def rounds(categories: int, features: int, most: int, elements: int) -> FlowInRounds:
            sizes = (self.node_hidden, self.edge_blocks, self.heads)
            network = GraphAttention(
                *(categories, categories, features + FLAGS, *sizes), expansion=self.expansion
            )
            step = RoundStep(network, CategoryCoupling(categories))
            return FlowInRounds(SpacedEncoding(categories), Rounds(step, most, elements, free=0))

        return StagedGraphFlow(
            GrowthFlow(
                GrowthNetwork(
                    *(task.nodes + 1, self.most_bonds, self.node_hidden, self.pair_layers, self.heads)
                )
            ),
            rounds(kinds, KIND_FEATURES, _KIND_ROUNDS, task.bonds),
            rounds(len(known.atoms), node_features(kinds), _ATOM_ROUNDS, task.nodes),
            task.bonds,
            known.sizes,
        )

    def _joint(self, layers: int, blocks: int, all_pairs: bool) -> JointFlow:
        sizes = JointSizes(self.node_channels, self.edge_channels, self.node_mixtures, self.edge_mixtures)
        shape = (sizes.inputs, sizes.outputs, self.node_hidden, self.edge_hidden, blocks, self.heads)
        return JointFlow(JointStep(sizes, EdgeGNN(*shape, all_pairs)) for _ in range(layers))
