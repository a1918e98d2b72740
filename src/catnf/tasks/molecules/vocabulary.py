"""The categories of atoms and bonds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from catnf.errors import InputError

BONDS = ("none", "single", "double", "triple")
"""Categories of pairs of atoms; the number of a category is the order of the bond."""


class MolecularGraph(NamedTuple):
    """A kekulized molecule without hydrogens.

    Attributes:
        atoms: categories of atoms, `[atoms]`, uint8.
        bonds: rows `(i, j, order)` with `i < j` and order 1 to 3, `[bonds, 3]`, uint8.
    """

    atoms: NDArray[np.uint8]
    bonds: NDArray[np.uint8]


@dataclass(frozen=True)
class Vocabulary:
    """Which atoms there are: elements, each with the formal charges it may carry.

    Attributes:
        atoms: labels in the order of their categories, an element's symbol and its charge: `C`, `N+`, `O-`,
            `S+2`.
    """

    atoms: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(set(self.atoms)) != len(self.atoms) or not self.atoms:
            raise InputError(f"The atoms {list(self.atoms)} are not distinct labels such as C, N+, O-.")
        for label in self.atoms:
            self.parse(label)

    def __len__(self) -> int:
        return len(self.atoms)

    @property
    def charged(self) -> bool:
        """Whether any atom carries a charge."""
        return any(self.parse(label)[1] for label in self.atoms)

    @staticmethod
    def label(symbol: str, charge: int) -> str:
        """The label of an element with a formal charge.

        >>> Vocabulary.label("N", 1), Vocabulary.label("O", -1), Vocabulary.label("S", 2)
        ('N+', 'O-', 'S+2')
        """
        sign = "+" if charge > 0 else "-"
        return symbol + (sign + (str(abs(charge)) if abs(charge) > 1 else "") if charge else "")

    @staticmethod
    def parse(label: str) -> tuple[str, int]:
        """The element's symbol and the charge of a label.

        >>> Vocabulary.parse("N+"), Vocabulary.parse("S+2")
        (('N', 1), ('S', 2))
        """
        symbol = label.rstrip("+-0123456789")
        rest = label[len(symbol) :]
        size = rest[1:] or "1"
        if not symbol.isalpha() or (rest and (rest[0] not in "+-" or not size.isdigit())):
            raise InputError(f"{label!r} is no atom; write an element and its charge, such as C, N+ or O-.")
        return symbol, (int(size) * (1 if rest[0] == "+" else -1) if rest else 0)


NEUTRAL = Vocabulary(("C", "N", "O", "F", "P", "S", "Cl", "Br", "I"))
"""The paper's atoms for Zinc250k."""
