"""Molecules as graphs of atoms and bonds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from catnf.errors import InputError
from catnf.tasks.molecules.data import Molecules
from catnf.tasks.molecules.models import MoleculeModelConfig
from catnf.tasks.molecules.vocabulary import NEUTRAL, MolecularGraph, Vocabulary

__all__ = ["MolecularGraph", "MoleculeModelConfig", "MoleculeTaskConfig", "Molecules", "Vocabulary"]


@dataclass(frozen=True)
class MoleculeTaskConfig:
    """Which molecules to learn from; the defaults are those of Zinc250k."""

    kind: Literal["molecules"] = "molecules"
    source: str = "zinc250k"  # zinc250k, moses, or the path of a file that `catnf data molecules` made
    charges: Literal["neutral", "charged"] = "neutral"  # whether atoms have charges
    atoms: tuple[str, ...] = NEUTRAL.atoms  # their categories: elements, each with its charge
    nodes: int = 38  # the most atoms that a molecule has
    bonds: int = 45  # the most bonds
    groups: tuple[int, ...] = ()  # sizes up to which training molecules are padded together; none for `nodes`

    def __post_init__(self) -> None:
        for name in ("nodes", "bonds"):
            if not 2 <= getattr(self, name) <= 255:
                raise InputError(f"task.{name} is {getattr(self, name)}; give a number from 2 to 255.")
        if list(self.groups) != sorted(set(self.groups)) or any(
            not 2 <= g <= self.nodes for g in self.groups
        ):
            raise InputError(
                f"task.groups is {list(self.groups)}; give rising sizes from 2 to task.nodes, {self.nodes}."
            )

    def make(self) -> Molecules:
        """The task itself."""
        groups = self.groups if self.groups[-1:] == (self.nodes,) else (*self.groups, self.nodes)
        return Molecules(self.source, self.charges, Vocabulary(self.atoms), self.nodes, self.bonds, groups)
