"""Making the data sets of colored graphs, on all cores, in pieces that an interruption keeps."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from catnf.errors import InputError, StorageError
from catnf.processes import in_processes
from catnf.storage import make_folder
from catnf.tasks.coloring.archive import Archive, fingerprint, load_archives, save_archives
from catnf.tasks.coloring.graphs import GraphSettings, make_example, solver_version
from catnf.tasks.cores import available_cores

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class DataPlan:
    """What a data set consists of.

    Attributes:
        graphs: which graphs.
        counts: examples of the splits, in the order of `SPLITS`.
        seed: another one gives other graphs.
    """

    graphs: GraphSettings = field(default_factory=GraphSettings)
    counts: tuple[int, int, int] = (192_000, 24_000, 24_000)
    seed: int = 0

    def __post_init__(self) -> None:
        if len(self.counts) != len(SPLITS) or min(self.counts) < 0 or sum(self.counts) == 0:
            raise InputError(f"counts are {self.counts}; give three numbers of graphs, 0 or more.")
        if self.seed < 0:
            raise InputError(f"seed is {self.seed}; give 0 or more.")

    def digest(self, solver: str) -> str:
        """A short name for exactly this plan, carried out by this version of the solver."""
        text = json.dumps([asdict(self), solver], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


SMALL = DataPlan()
LARGE = DataPlan(GraphSettings(25, 50), (450_000, 20_000, 30_000))


@dataclass(frozen=True)
class Piece:
    """Some examples of a split, made by one process."""

    plan: DataPlan
    split: int
    start: int
    stop: int
    path: Path

    def make(self) -> int:
        """Make and write the examples; returns how many."""
        plan = self.plan
        examples = [
            make_example(plan.graphs, plan.seed, self.split, index) for index in range(self.start, self.stop)
        ]
        save_archives(self.path, {"piece": Archive.pack(examples)}, {})
        return len(examples)

    def load(self) -> Archive | None:
        """The examples, or `None` where they are not made or cannot be read."""
        try:
            archive = load_archives(self.path)[0]["piece"]
        except (StorageError, KeyError):
            return None
        return archive if len(archive) == self.stop - self.start else None


def make_dataset(
    path: Path,
    plan: DataPlan,
    workers: int | None = None,
    progress: Callable[[int], None] = lambda count: None,
    at_once: int = 500,
) -> str:
    """Make the graphs of `plan`, write them to `path`, and return their fingerprint.

    What is finished is kept beside `path` until all of it is; the same call goes on from there, and does
    nothing once `path` holds the plan's graphs. The outcome depends on the plan and the solver's version
    alone, not on the number of workers.

    Args:
        path: file to write.
        plan: what to make.
        workers: processes; all cores by default.
        progress: called with the number of further graphs that are ready.
        at_once: graphs that a process makes at a time, and that an interruption loses at most.
    """
    finished = _finished(path, plan)
    if finished is not None:
        progress(sum(plan.counts))
        return finished
    solver = solver_version()
    workers = workers if workers is not None else available_cores()
    if workers < 1:
        raise InputError(f"workers is {workers}; give at least 1.")
    folder = path.with_name(f"{path.name}.{plan.digest(solver)}.parts")
    make_folder(folder)
    pieces = [
        Piece(plan, split, start, min(start + at_once, count), folder / f"{name}-{start:07d}.npz")
        for split, (name, count) in enumerate(zip(SPLITS, plan.counts, strict=True))
        for start in range(0, count, at_once)
    ]
    missing = []
    for piece in pieces:
        done = piece.load()
        if done is None:
            missing.append(piece)
        else:
            progress(len(done))
    for count in in_processes(Piece.make, missing, workers):
        progress(count)
    splits = {}
    for split, name in enumerate(SPLITS):
        loaded = [piece.load() for piece in pieces if piece.split == split]
        if any(archive is None for archive in loaded):
            raise StorageError(f"A file in {folder} cannot be read back; check the disk and start again.")
        splits[name] = Archive.join([archive for archive in loaded if archive is not None])
    mark = fingerprint(splits)
    save_archives(path, splits, {"plan": asdict(plan), "solver": solver, "fingerprint": mark})
    shutil.rmtree(folder)
    return mark


def _finished(path: Path, plan: DataPlan) -> str | None:
    """The fingerprint of the file at `path`, if it holds what `plan` asks for."""
    try:
        _, header = load_archives(path)
    except StorageError:
        return None
    same = header.get("plan") == json.loads(json.dumps(asdict(plan)))
    return str(header.get("fingerprint")) if same else None
