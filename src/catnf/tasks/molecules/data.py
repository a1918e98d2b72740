"""Molecules as a task: whole graphs of atoms and bonds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from catnf.context import Context
from catnf.errors import InputError, StorageError
from catnf.pairs import pair_count, pair_index, pair_layout
from catnf.tasks.molecules.archive import PADDING, MoleculeArchive, MoleculeData
from catnf.tasks.molecules.sources import dataset_path
from catnf.tasks.molecules.vocabulary import BONDS, MolecularGraph, Vocabulary
from catnf.tasks.task import (
    Measured,
    Measuring,
    Part,
    Split,
    Task,
    check_evaluation,
    positive_frequencies,
    spread,
)

if TYPE_CHECKING:
    from catnf.tasks.molecules.metrics import Known


class Tables(NamedTuple):
    """Molecules of a split on a device.

    Attributes:
        atoms: `[molecules, nodes]`, 255 at padding.
        ends: `[molecules, bonds, 2]`.
        orders: `[molecules, bonds]`, 0 at padding.
    """

    atoms: Tensor
    ends: Tensor
    orders: Tensor

    @classmethod
    def of(cls, archive: MoleculeArchive, nodes: int, bonds: int) -> Tables:
        """Tables of an archive, its molecules padded to `nodes` and `bonds`."""
        return cls(*(torch.from_numpy(part) for part in archive.padded(nodes, bonds)))

    def to(self, device: torch.device) -> Tables:
        """The same tables on another device."""
        return Tables(*(table.to(device) for table in self))

    def take(self, chosen: Tensor | slice, nodes: int) -> tuple[Tensor, Context]:
        """Graphs `[chosen, nodes + pairs]` of some molecules, none of which has more than `nodes` atoms."""
        atoms, orders = self.atoms[chosen, :nodes].long(), self.orders[chosen].long()
        first, second = self.ends[chosen].long().unbind(-1)
        # Padding is added where every order is 0, to the first pair, and changes nothing there.
        place = torch.where(orders > 0, pair_index(first, second, nodes), 0)
        pairs = orders.new_zeros(len(orders), pair_count(nodes)).scatter_add_(1, place, orders)
        mask = atoms != PADDING
        x = torch.cat([torch.where(mask, atoms, 0), pairs], dim=1)
        return x, Context(len(x), nodes, mask)


@dataclass(frozen=True)
class Statistics:
    """What a model starts from; a trained one brings its own.

    Attributes:
        atoms: how often the categories of atoms occur.
        bonds: how often single, double and triple bonds occur.
        sizes: how often molecules of 0, 1, 2, ... atoms occur.
        bonded: the share of pairs of atoms with a bond.
    """

    atoms: Tensor
    bonds: Tensor
    sizes: Tensor
    bonded: float

    @classmethod
    def of(cls, archive: MoleculeArchive, atoms: int, nodes: int) -> Statistics:
        """Counted in an archive."""
        sizes = np.bincount(archive.sizes, minlength=nodes + 1)
        pairs = float((sizes * np.arange(len(sizes)) * np.arange(-1, len(sizes) - 1)).sum()) / 2
        kinds = np.bincount(archive.bonds[:, 2], minlength=len(BONDS))[1:]
        return cls(
            positive_frequencies(torch.from_numpy(np.bincount(archive.atoms, minlength=atoms))),
            positive_frequencies(torch.from_numpy(kinds)),
            torch.from_numpy(sizes / sizes.sum()).float(),
            len(archive.bonds) / max(pairs, 1.0),
        )

    @classmethod
    def unknown(cls, atoms: int, nodes: int) -> Statistics:
        """All alike, where there are no data: what a trained model is read into."""
        kinds = len(BONDS) - 1
        return cls(
            torch.full((atoms,), 1.0 / atoms),
            torch.full((kinds,), 1.0 / kinds),
            torch.full((nodes + 1,), 1.0 / (nodes + 1)),
            0.1,
        )


@dataclass(frozen=True)
class Molecules(Task):
    """Molecules in a file that `catnf data molecules` makes.

    The file is read when it is first needed: a trained model draws molecules without it.

    Attributes:
        source: `zinc250k`, `moses`, or the path of a file.
        kind: `neutral` or `charged`, which file of a known source is meant.
        vocabulary: the categories of atoms.
        nodes: the most atoms that a molecule has.
        bonds: the most bonds.
        groups: largest sizes of the groups that training molecules are put into, so that small ones need not
            be padded to the largest size; every step draws from all groups, by their shares.
    """

    source: str
    kind: str
    vocabulary: Vocabulary
    nodes: int
    bonds: int
    groups: tuple[int, ...]
    _splits: dict[str, MoleculeArchive] = field(default_factory=dict, init=False, repr=False, compare=False)
    _tables: dict[tuple[str, torch.device], Tables] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def name(self) -> str:
        return f"molecules/{self.source if '/' not in self.source else 'file'}"

    @property
    def categories(self) -> int:
        return len(self.vocabulary)

    @property
    def unit(self) -> str:
        return "node"

    def frequencies(self) -> Tensor:
        return self.statistics().atoms

    def statistics(self) -> Statistics:
        """Of the training molecules; of none where there is no file."""
        try:
            archive = self.archive("train")
        except StorageError:
            return Statistics.unknown(self.categories, self.nodes)
        return Statistics.of(archive, self.categories, self.nodes)

    def fingerprint(self) -> str:
        return MoleculeData(self.vocabulary, {"train": self.archive("train")}, {}).fingerprint()

    def batch(self, size: int, generator: torch.Generator) -> tuple[Tensor, Context]:
        tables = self._table("train", generator.device)
        chosen = torch.randint(len(tables.atoms), (size,), device=generator.device, generator=generator)
        return tables.take(chosen, self.nodes)

    def parts(self, size: int, generator: torch.Generator, bucket: int = 0) -> list[Part]:
        device = generator.device
        tables = self._table("train", device)
        sizes = np.sort(self.archive("train").sizes)  # tables are sorted by size
        edges = [0, *np.searchsorted(sizes, self.groups, side="right").tolist()]
        parts = []
        for largest, start, stop in zip(self.groups, edges[:-1], edges[1:], strict=True):
            if start == stop:
                continue
            share = (stop - start) / len(sizes)
            count = max(1, round(size * share))
            chosen = start + torch.randint(stop - start, (count,), device=device, generator=generator)
            parts.append(Part(*tables.take(chosen, largest), share))
        return parts

    def evaluation(self, split: Split, limit: int | None = None) -> Tensor:
        return self._evaluated(split, limit)[0]

    def evaluation_context(self, split: Split, limit: int | None = None) -> Context:
        return self._evaluated(split, limit)[1]

    def context(self, x: Tensor) -> Context:
        raise InputError("Graphs alone do not tell which atoms are padding; give their context.")

    def sample_context(self, size: int, device: torch.device | str = "cpu") -> Context:
        """Sizes like those of the training molecules, in turn."""
        sizes = (self.statistics().sizes.double().cumsum(0) * size).round()
        each = torch.searchsorted(sizes, torch.arange(size) + 0.5)
        return Context(size, self.nodes, (torch.arange(self.nodes) < each.unsqueeze(1)).to(device))

    def recovered(self, x: Tensor, back: Tensor, ctx: Context) -> Tensor:
        """Which molecules came back with all atoms and bonds."""
        return (back == x).all(1).float()

    def graphs(self, x: Tensor, ctx: Context) -> list[MolecularGraph]:
        """Graphs `x: [batch, nodes + pairs]` without their padding."""
        layout = pair_layout(ctx.elements)
        ends = np.stack([layout.first.numpy(), layout.second.numpy()], axis=1).astype(np.uint8)
        values = x.cpu().numpy().astype(np.uint8)
        found = []
        for row, size in zip(values, ctx.counts(x).long().tolist(), strict=True):
            orders = row[ctx.elements :]
            there = np.flatnonzero(orders)
            bonds = np.concatenate([ends[there], orders[there, None]], axis=1)
            found.append(MolecularGraph(row[:size], bonds))
        return found

    def sample_metrics(self, x: Tensor, ctx: Context | None = None) -> dict[str, float]:
        """`validity` and other shares, by the protocols of `catnf.tasks.molecules.metrics`.

        Novelty is among them where there is a file of training molecules.
        """
        from catnf.tasks.molecules.metrics import read_graphs, sample_metrics

        assert ctx is not None
        readings = read_graphs(self.graphs(x, ctx), self.vocabulary)
        return {name: share.value for name, share in sample_metrics(readings, self.known()).items()}

    def measure(self, x: Tensor, ctx: Context, how: Measuring) -> Measured:
        """`sample_metrics`, distances from held-out molecules and the metrics of MOSES."""
        from catnf.tasks.molecules.measures import measure_graphs

        return measure_graphs(self, self.graphs(x, ctx), how)

    def known(
        self, progress: Callable[[int, int], None] = lambda done, total: None, workers: int = 1
    ) -> Known | None:
        """Hashes of the training molecules, to tell which samples are new; `None` without a file of them.

        The first time this takes a while, which `progress` is told about; more than one of `workers` are for
        programs whose main module can be imported again.
        """
        from catnf.tasks.molecules.known import known_hashes

        try:
            archive, path = self.archive("train"), dataset_path(self.source, self.kind)
            return known_hashes(path, archive, self.vocabulary, progress, workers)
        except StorageError:
            return None

    def archive(self, split: str) -> MoleculeArchive:
        """The molecules of a split, those that train by their sizes."""
        if split not in self._splits:
            path = dataset_path(self.source, self.kind)
            data = MoleculeData.load(path, [split])
            if data.vocabulary != self.vocabulary:
                raise InputError(
                    f"{path} has the atoms {list(data.vocabulary.atoms)}; set task.atoms to these."
                )
            archive = data.splits[split]
            atoms, bonds = archive.largest
            if len(archive) == 0:
                raise StorageError(f"The {split} split of {path} is empty; make a file with more molecules.")
            if atoms > self.nodes or bonds > self.bonds:
                raise InputError(
                    f"{path} has molecules of {atoms} atoms and {bonds} bonds; set task.nodes and task.bonds "
                    "to these or more."
                )
            if split == "train":  # groups are ranges
                archive = archive.take(np.argsort(archive.sizes, kind="stable"))
            self._splits[split] = archive
        return self._splits[split]

    def _evaluated(self, split: Split, limit: int | None) -> tuple[Tensor, Context]:
        check_evaluation(split, limit)
        tables = self._table(split, torch.device("cpu"))
        return tables.take(spread(len(tables.atoms), limit), self.nodes)

    def _table(self, split: str, device: torch.device) -> Tables:
        if (split, device) not in self._tables:
            tables = Tables.of(self.archive(split), self.nodes, self.bonds)
            self._tables[split, device] = tables.to(device)
        return self._tables[split, device]
