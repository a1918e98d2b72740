"""How much one may ask of the page at once, so that no request takes long."""

from __future__ import annotations

import math
from dataclasses import dataclass

from catnf.errors import InputError


@dataclass(frozen=True)
class Limits:
    """Upper bounds of everything that can be asked; the page shows them."""

    molecules: int = 40  # drawn at once
    steps: int = 12  # on a path between two molecules
    smiles: int = 200  # characters of a molecule
    nodes: int = 100  # of a graph
    edges: int = 1_000
    name: int = 12  # characters of a node's name
    colorings: int = 32  # tried for a graph
    prompt: int = 500  # characters of a text that is continued
    symbols: int = 500  # that are written
    upload: int = 5_000_000  # bytes of a table
    rows: int = 10_000
    columns: int = 40
    seconds: float = 30  # of learning a table
    anomalies: int = 25  # rows that are shown
    request: int = 200_000  # bytes of any other request
    coldest: float = 0.1  # temperatures
    hottest: float = 2.0


def check_between(name: str, value: float, low: float, high: float) -> None:
    """Refuse a number outside a range, with one sentence.

    >>> check_between("count", 99, 1, 40)
    Traceback (most recent call last):
    catnf.errors.InputError: count is 99; give a number from 1 to 40.
    """
    if not (math.isfinite(value) and low <= value <= high):
        raise InputError(f"{name} is {value}; give a number from {low} to {high}.")


def check_seed(seed: int) -> None:
    """Refuse what is no seed."""
    check_between("seed", seed, 0, 2**32 - 1)
