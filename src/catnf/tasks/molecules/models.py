"""The paper's model of molecules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from catnf.encodings import MixtureEncoding
from catnf.encodings.virtual import VirtualEdges
from catnf.errors import InputError
from catnf.flows.joint import JointFlow, JointSizes, JointStep
from catnf.flows.step import mixture_steps
from catnf.models.graph_cnf import GraphCNF
from catnf.nets.edge_gnn import EdgeGNN
from catnf.nets.rgcn import RelationalGCN
from catnf.tasks.molecules.data import Molecules
from catnf.tasks.molecules.vocabulary import BONDS
from catnf.tasks.task import Task


@dataclass(frozen=True)
class MoleculeModelConfig:
    """Sizes of a model of molecules; the defaults are the paper's."""

    kind: Literal["molecule-graphcnf"] = "molecule-graphcnf"
    node_channels: int = 6  # latent channels of an atom
    edge_channels: int = 2  # and of a bond
    node_mixtures: int = 16  # logistics in the couplings of atoms
    edge_mixtures: int = 8  # and of bonds
    node_layers: int = 4  # couplings of the first step, atoms given bonds
    edge_layers: int = 6  # of the second, atoms and kinds of bonds
    pair_layers: int = 6  # of the third, atoms and all pairs
    node_blocks: int = 3  # layers of a network of the first step
    edge_blocks: int = 4  # of the second
    pair_blocks: int = 4  # of the third
    node_hidden: int = 256  # width of features of atoms
    edge_hidden: int = 128  # and of bonds
    heads: int = 4  # attention heads
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

    def make(self, task: Task) -> GraphCNF:
        """A freshly initialized model for `task`."""
        assert isinstance(task, Molecules)
        known = task.statistics()
        kinds = len(BONDS) - 1
        sizes = JointSizes(self.node_channels, self.edge_channels, self.node_mixtures, self.edge_mixtures)

        def relational(inputs: int, outputs: int) -> RelationalGCN:
            return RelationalGCN(inputs, outputs, kinds, self.node_hidden, self.node_blocks)

        def joint(layers: int, blocks: int, all_pairs: bool) -> JointFlow:
            widths = (self.node_hidden, self.edge_hidden)
            return JointFlow(
                JointStep(sizes, EdgeGNN(sizes.inputs, sizes.outputs, *widths, blocks, self.heads, all_pairs))
                for _ in range(layers)
            )

        return GraphCNF(
            MixtureEncoding(known.atoms, self.node_channels, reach=self.reach),
            MixtureEncoding(known.bonds, self.edge_channels, reach=self.reach),
            VirtualEdges(self.edge_channels, known.bonded),
            mixture_steps(self.node_channels, self.node_layers, self.node_mixtures, relational),
            joint(self.edge_layers, self.edge_blocks, all_pairs=False),
            joint(self.pair_layers, self.pair_blocks, all_pairs=True),
            task.bonds,
            known.sizes,
        )
