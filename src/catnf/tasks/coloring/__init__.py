"""Graph coloring: colors for all nodes of a graph at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from catnf.errors import InputError
from catnf.tasks.coloring.data import PLANS, GraphColoring, conflicts
from catnf.tasks.coloring.models import ColoringModelConfig

__all__ = ["ColoringModelConfig", "ColoringTaskConfig", "GraphColoring", "conflicts"]


@dataclass(frozen=True)
class ColoringTaskConfig:
    """Which colored graphs to learn from."""

    kind: Literal["coloring"] = "coloring"
    size: str = "small"  # small, large, or the path of a file that `catnf data coloring` made
    colors: int = 3
    nodes: int = 0  # what graphs are padded to; 0 for the largest graph of small or large

    def __post_init__(self) -> None:
        if self.colors < 2:
            raise InputError(f"task.colors is {self.colors}; give at least 2.")
        if self.nodes < 0 or (self.nodes == 0 and self.size not in PLANS):
            raise InputError(f"task.nodes is {self.nodes}; give the number of nodes of the largest graph.")

    def make(self) -> GraphColoring:
        """The task itself."""
        nodes = self.nodes or PLANS[self.size].graphs.largest
        return GraphColoring(self.size, self.colors, nodes)
