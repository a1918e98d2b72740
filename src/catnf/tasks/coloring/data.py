"""Colorings of random graphs as a task: learn which colors a solver gives, given the graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from catnf.context import Context, GraphContext
from catnf.errors import InputError, StorageError
from catnf.tasks.coloring.archive import Archive, fingerprint, load_archives
from catnf.tasks.coloring.generation import LARGE, SMALL, DataPlan
from catnf.tasks.files import need_data
from catnf.tasks.task import Split, Task, check_evaluation

PLANS: dict[str, DataPlan] = {"small": SMALL, "large": LARGE}

FINGERPRINTS = {
    "small": "5a97884097b938dc2c540556d95fe61a7a646b987fe110d165eecdb7395e52f1",
    "large": "f4a63874a182c18d71777e9df8f064cb41fbee76737b9188a525c6fa39f7aaaa",
}
"""Of the default data sets, so that everyone evaluates on the same graphs."""

SOLVER = "9.15"
"""The version of OR-Tools that the default data sets were made with; others color differently."""


class Tables(NamedTuple):
    """Graphs of a split on a device.

    Attributes:
        bits: adjacency, eight nodes in a byte, `[graphs, nodes, nodes / 8]`.
        colors: `[graphs, nodes]`, -1 where a graph has no node.
    """

    bits: Tensor
    colors: Tensor

    @classmethod
    def of(cls, archive: Archive, nodes: int) -> Tables:
        """Tables of an archive, its graphs padded to `nodes`."""
        bits = np.zeros((len(archive), nodes, -(-nodes // 8)), dtype=np.uint8)
        colors = np.full((len(archive), nodes), -1, dtype=np.int8)
        for start in range(0, len(archive), _AT_ONCE):
            stop = min(start + _AT_ONCE, len(archive))
            adjacency, some = archive.select(start, stop).dense(nodes)
            bits[start:stop] = np.packbits(adjacency, axis=-1, bitorder="little")
            colors[start:stop] = some
        return cls(torch.from_numpy(bits), torch.from_numpy(colors))

    def take(self, chosen: Tensor | slice) -> tuple[Tensor, GraphContext]:
        """Colors `[chosen, nodes]`, 0 at padding, and the context of some graphs."""
        bits, colors = self.bits[chosen], self.colors[chosen].long()
        nodes = colors.shape[1]
        places = torch.arange(8, device=bits.device, dtype=torch.uint8)
        adjacency = (bits.unsqueeze(-1).bitwise_right_shift(places) & 1).flatten(2)[..., :nodes].bool()
        return colors.clamp(min=0), GraphContext.of(adjacency, colors >= 0)


_AT_ONCE = 20_000  # graphs that are unpacked at once, to bound memory


@dataclass(frozen=True)
class GraphColoring(Task):
    """Graphs with colorings, in a file that `catnf data coloring` makes.

    The file is read when the first batch is drawn: a trained model colors graphs without it.

    Attributes:
        size: `small` or `large`, or the path of a file.
        colors: colors of every graph, all of them equally likely since they are permuted at random.
        nodes: what graphs are padded to.
    """

    size: str = "small"
    colors: int = 3
    nodes: int = 20
    _splits: dict[str, Archive] = field(default_factory=dict, init=False, repr=False, compare=False)
    _tables: dict[tuple[str, torch.device], Tables] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def name(self) -> str:
        return f"coloring/{self.size}" if self.size in PLANS else "coloring/file"

    @property
    def categories(self) -> int:
        return self.colors

    @property
    def unit(self) -> str:
        return "node"

    def frequencies(self) -> Tensor:
        return torch.full((self.colors,), 1.0 / self.colors)

    def batch(self, size: int, generator: torch.Generator) -> tuple[Tensor, GraphContext]:
        device = generator.device
        tables = self._table("train", device)
        chosen = torch.randint(len(tables.colors), (size,), device=device, generator=generator)
        x, ctx = tables.take(chosen)
        order = torch.rand(size, self.colors, device=device, generator=generator).argsort(1)
        return ctx.hide(order.gather(1, x)), ctx

    def evaluation(self, split: Split, limit: int | None = None) -> Tensor:
        return self._evaluated(split, limit)[0]

    def evaluation_context(self, split: Split, limit: int | None = None) -> GraphContext:
        return self._evaluated(split, limit)[1]

    def measured_context(self, split: Split, count: int) -> GraphContext:
        """One sample for each graph of the split."""
        return self.evaluation_context(split, count)

    def context(self, x: Tensor) -> Context:
        raise InputError("Colors alone do not tell the graph; give its context as ctx=GraphContext.of(...).")

    def sample_context(self, size: int, device: torch.device | str = "cpu") -> GraphContext:
        """The first graphs of the test split, over and over where more are asked for."""
        graphs = len(self._table("test", torch.device("cpu")).colors)
        return self._table("test", torch.device("cpu")).take(torch.arange(size) % graphs)[1].to(device)

    def sample_rows(self, x: Tensor, ctx: Context) -> tuple[list[str], list[list[str]]]:
        """A row for each graph: its edges as `0-1 0-2`, the colors of its nodes as `0 1 1`, and conflicts."""
        assert isinstance(ctx, GraphContext)
        sizes = ctx.counts(x).tolist()
        rows = []
        for index, wrong in enumerate(conflicts(x, ctx).tolist()):
            edges = " ".join(f"{one}-{two}" for one, two in ctx.edges[index].triu().nonzero().tolist())
            rows.append([edges, " ".join(map(str, x[index, : sizes[index]].tolist())), str(wrong)])
        return ["edges", "colors", "conflicts"], rows

    @property
    def attempts(self) -> tuple[int, ...]:
        return (1, 4, 16, 64)

    def valid(self, x: Tensor, ctx: Context | None = None) -> Tensor:
        """Which graphs have no two neighbours of one color."""
        if not isinstance(ctx, GraphContext):
            raise InputError("Colorings are valid or not for their graphs; give the context they belong to.")
        return conflicts(x, ctx) == 0

    def sample_metrics(self, x: Tensor, ctx: Context | None = None) -> dict[str, float]:
        """`validity`, the share of valid colorings."""
        return {"validity": self.valid(x, ctx).double().mean().item()}

    def _evaluated(self, split: Split, limit: int | None) -> tuple[Tensor, GraphContext]:
        check_evaluation(split, limit)
        # The first are as good as any: graphs are drawn at random, one after another.
        return self._table(split, torch.device("cpu")).take(slice(limit))

    def _table(self, split: str, device: torch.device) -> Tables:
        if (split, device) not in self._tables:
            if not self._splits:
                self._splits.update(self._read())
            archive = self._splits[split]
            if len(archive) == 0:
                raise StorageError(
                    f"The {split} split of {self.size!r} is empty; make a file with more graphs."
                )
            tables = Tables.of(archive, self.nodes)
            self._tables[split, device] = Tables(tables.bits.to(device), tables.colors.to(device))
        return self._tables[split, device]

    def _read(self) -> dict[str, Archive]:
        path = dataset_path(self.size)
        splits, _ = load_archives(path)
        missing = {"train", "validation", "test"} - splits.keys()
        if missing:
            raise StorageError(f"{path} has no {sorted(missing)[0]} split; make it with catnf data coloring.")
        expected = FINGERPRINTS.get(self.size)
        if expected is not None and fingerprint(splits) != expected:
            raise StorageError(
                f"{path} holds other graphs than the default set {self.size!r}; remove it and make it again "
                f"with OR-Tools {SOLVER} and catnf data coloring --size {self.size}."
            )
        largest = max(int(archive.sizes.max(initial=0)) for archive in splits.values())
        if largest > self.nodes:
            raise InputError(f"{path} has a graph of {largest} nodes; set task.nodes to {largest} or more.")
        used = max(int(archive.colors.max(initial=0)) for archive in splits.values()) + 1
        if used > self.colors:
            raise InputError(f"{path} has {used} colors; set task.colors to {used}.")
        return splits


def dataset_path(size: str) -> Path:
    """The file of a data set, or `StorageError` with the command that makes it."""
    if size not in PLANS:
        path = Path(size)
        if not path.exists():
            raise StorageError(f"There is no file {path}; give small, large or the path of a data set.")
        return path
    return need_data(relative_path(size), f"catnf data coloring --size {size}")


def relative_path(size: str) -> str:
    """Where a default data set lies in a data folder."""
    return f"coloring/{size}.npz"


def conflicts(x: Tensor, ctx: GraphContext) -> Tensor:
    """How many edges of every graph join nodes of one color: `[batch]` for colors `x: [batch, nodes]`."""
    same = x.unsqueeze(1) == x.unsqueeze(2)
    return (same & ctx.edges.to(x.device)).flatten(1).sum(1) // 2
