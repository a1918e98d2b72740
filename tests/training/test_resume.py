"""Stopped and resumed runs equal uninterrupted ones, to the last digit."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pytest
import torch

from catnf.errors import InputError, StorageError
from catnf.experiments import Experiment, load_experiment
from catnf.locking import locked
from catnf.storage import load_tensors, save_tensors
from catnf.training import run as module
from catnf.training.logs import LossLog
from catnf.training.run import RunOptions, RunSummary, train

Tiny = Callable[..., Experiment]


def run(experiment: Experiment, folder: Path, **options: object) -> RunSummary:
    settings = {"device": "cpu", "quiet": True, "log_every": 5, **options}
    return train(experiment, RunOptions(folder, **settings))  # type: ignore[arg-type]


def assert_same_run(one: Path, other: Path) -> None:
    """Losses, checkpoint and model are identical."""
    assert (one / "losses.csv").read_text() == (other / "losses.csv").read_text()
    for name in ("checkpoint.safetensors", "model.safetensors"):
        (left, left_header), (right, right_header) = load_tensors(one / name), load_tensors(other / name)
        assert left.keys() == right.keys()
        for key in left:
            assert torch.equal(left[key], right[key]), f"{key} of {name}"
        assert left_header["experiment"] == right_header["experiment"]


@pytest.mark.parametrize(
    ("kind", "optimizer"), [("mixture", "radam"), ("variational", "muon"), ("discrete", "adam")]
)
def test_stopped_and_resumed_equals_uninterrupted(
    tiny: Tiny, tmp_path: Path, kind: str, optimizer: str
) -> None:
    experiment = tiny(kind, f"training.optimizer={optimizer}")
    whole = run(experiment, tmp_path / "whole")
    assert (whole.step, whole.finished, whole.interrupted) == (20, True, False)
    steps = [0]
    while steps[-1] < 20:  # a piece ends after five steps, or sooner on a machine that stalls for seconds
        piece = run(experiment, tmp_path / "pieces", max_time=0.0)
        assert steps[-1] < piece.step <= steps[-1] + 5
        assert piece.finished == (piece.step == 20)
        steps.append(piece.step)
    assert_same_run(tmp_path / "whole", tmp_path / "pieces")


def test_how_often_is_logged_and_saved_changes_nothing(tiny: Tiny, tmp_path: Path) -> None:
    run(tiny(), tmp_path / "one", log_every=7)
    run(tiny(), tmp_path / "other", log_every=1, checkpoint_every=0.0)
    assert_same_run(tmp_path / "one", tmp_path / "other")


def test_more_steps_than_planned(tiny: Tiny, tmp_path: Path) -> None:
    longer = tiny("mixture", "training.schedule=exponential")
    shorter = replace(longer, training=replace(longer.training, steps=8))
    run(longer, tmp_path / "whole")
    assert run(shorter, tmp_path / "grown").step == 8
    grown = run(longer, tmp_path / "grown")
    assert (grown.step, grown.finished) == (20, True)
    assert_same_run(tmp_path / "whole", tmp_path / "grown")


def test_a_finished_run_stays_as_it_is(tiny: Tiny, tmp_path: Path) -> None:
    run(tiny(), tmp_path)
    before = load_tensors(tmp_path / "model.safetensors")[0]
    again = run(tiny(), tmp_path)
    assert again.finished
    after = load_tensors(tmp_path / "model.safetensors")[0]
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert len(LossLog(tmp_path / "losses.csv", 20).read()[0]) == 20


@pytest.mark.usefixtures("ticking")
def test_rows_after_the_checkpoint_and_a_row_cut_short_are_made_again(tiny: Tiny, tmp_path: Path) -> None:
    run(tiny(), tmp_path / "whole")
    run(tiny(), tmp_path / "killed", max_time=0.0)
    with (tmp_path / "killed" / "losses.csv").open("a") as file:  # as a killed writer leaves it
        file.write("6,9.0\n7,9.0\n8,")
    run(tiny(), tmp_path / "killed")
    assert_same_run(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.parametrize("rest", ["", "3", "3,", '3,"1.'])
def test_a_row_cut_short_is_dropped(tmp_path: Path, rest: str) -> None:
    path = tmp_path / "losses.csv"
    path.write_text(f"step,bits\n1,2.5\n2,2.25\n{rest}")
    assert LossLog(path, 2).read() == ([1, 2], [2.5, 2.25])


@pytest.mark.usefixtures("ticking")
def test_restart_forgets_the_earlier_run(tiny: Tiny, tmp_path: Path) -> None:
    run(tiny(), tmp_path / "fresh", seed=1, max_time=0.0)
    run(tiny(), tmp_path / "again", seed=0)
    run(tiny(), tmp_path / "again", seed=1, restart=True, max_time=0.0)
    assert_same_run(tmp_path / "fresh", tmp_path / "again")


@pytest.mark.usefixtures("ticking")
def test_restart_keeps_the_earlier_run_until_all_is_ready(tiny: Tiny, tmp_path: Path) -> None:
    run(tiny(), tmp_path / "run")
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()}
    broken = load_experiment("coloring/small/graphcnf", ["task.size=gone.npz", "task.nodes=20"])
    with pytest.raises(StorageError, match=r"gone\.npz"):
        run(broken, tmp_path / "run", restart=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir() if path.is_file()} == before


@pytest.mark.usefixtures("ticking")
def test_a_model_that_could_not_be_written_is_written_later(tiny: Tiny, tmp_path: Path) -> None:
    run(tiny(), tmp_path / "run", max_time=0.0)
    early = (tmp_path / "run" / "model.safetensors").read_bytes()
    run(tiny(), tmp_path / "run")
    late = load_tensors(tmp_path / "run" / "model.safetensors")[0]
    (tmp_path / "run" / "model.safetensors").write_bytes(early)  # as if writing had failed at the end
    assert run(tiny(), tmp_path / "run").finished
    again = load_tensors(tmp_path / "run" / "model.safetensors")[0]
    assert all(torch.equal(again[name], late[name]) for name in late)


def test_another_seed_gives_another_run(tiny: Tiny, tmp_path: Path) -> None:
    run(tiny(), tmp_path / "0", seed=0, max_time=0.0)
    run(tiny(), tmp_path / "1", seed=1, max_time=0.0)
    assert (tmp_path / "0" / "losses.csv").read_text() != (tmp_path / "1" / "losses.csv").read_text()


@pytest.mark.parametrize(
    ("override", "seed", "named"),
    [
        ("model.mixtures=3", 0, "model.mixtures=2, not 3"),
        ("training.learning_rate=0.5", 0, "training.learning_rate=0.001, not 0.5"),
        ("training.steps=30", 7, "seed 0, not 7"),
    ],
)
def test_another_experiment_is_refused_and_nothing_touched(
    tiny: Tiny, tmp_path: Path, override: str, seed: int, named: str
) -> None:
    run(tiny(), tmp_path, max_time=0.0)
    before = {path: path.read_bytes() for path in tmp_path.glob("*.*")}
    with pytest.raises(InputError, match=named.replace(".", r"\.")) as caught:
        run(tiny("mixture", override), tmp_path, seed=seed)
    assert "--restart" in str(caught.value)
    assert {path: path.read_bytes() for path in tmp_path.glob("*.*")} == before


def test_random_state_of_another_device_gives_fresh_numbers(tiny: Tiny, tmp_path: Path) -> None:
    """A GPU's generator state has 16 bytes and means nothing to a CPU."""
    run(tiny(), tmp_path, max_time=0.0)
    path = tmp_path / "checkpoint.safetensors"
    tensors, header = load_tensors(path)
    save_tensors(path, tensors | {"random": torch.zeros(1, 16, dtype=torch.uint8)}, header)
    assert run(tiny(), tmp_path).finished


def test_a_time_budget_ends_the_run_for_good(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count()  # a clock that moves by 10 ms whenever it is read, however slow the machine
    monkeypatch.setattr(time, "monotonic", lambda: 0.01 * next(ticks))
    experiment = tiny("mixture", "training.steps=1000000")
    done = run(experiment, tmp_path, budget=1.5)
    assert done.finished
    assert 10 < done.step <= 150, "the clock is read in every step"
    again = run(experiment, tmp_path, budget=1.5)
    assert (again.step, again.finished) == (done.step, True)
    assert run(experiment, tmp_path / "none", budget=1e-6).step == 0
    with pytest.raises(InputError, match="budget is 0"):
        run(experiment, tmp_path, budget=0.0)


@pytest.mark.parametrize("damage", ["truncated", "foreign", "model"])
def test_a_damaged_checkpoint_is_refused_and_kept(tiny: Tiny, tmp_path: Path, damage: str) -> None:
    run(tiny(), tmp_path, max_time=0.0)
    path = tmp_path / "checkpoint.safetensors"
    content = {
        "truncated": path.read_bytes()[:-100],
        "foreign": b"not a checkpoint",
        "model": (tmp_path / "model.safetensors").read_bytes(),
    }[damage]
    path.write_bytes(content)
    with pytest.raises(StorageError, match=str(path)):
        run(tiny(), tmp_path)
    assert path.read_bytes() == content


def test_a_run_writes_all_its_files_and_nothing_else(tiny: Tiny, tmp_path: Path) -> None:
    summary = run(tiny(), tmp_path / "a" / "b")
    names = {path.name for path in summary.folder.iterdir()}
    expected = {"checkpoint.safetensors", "losses.csv", "model.safetensors", "run.json", "loss.png"}
    assert names == expected | {"tensorboard"}
    assert summary.bits is not None
    _, bits = LossLog(summary.folder / "losses.csv", 20).read()
    assert summary.bits == pytest.approx(sum(bits[-5:]) / 5, rel=1e-6)


def test_a_run_waits_for_its_turn_and_its_budget_with_it(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl", reason="needs file locks")
    ticks, waited = itertools.count(), []
    monkeypatch.setattr(time, "monotonic", lambda: 0.01 * next(ticks) + 1000.0 * len(waited))
    turn, done, ready = tmp_path / "turn", [], Event()

    @contextmanager
    def told(path: Path | None) -> Iterator[None]:
        ready.set()
        with locked(path):
            yield

    monkeypatch.setattr(module, "locked", told)
    endless = tiny("discrete", "training.steps=1000000")
    waiting = Thread(
        target=lambda: done.append(run(endless, tmp_path / "run", budget=1.5, turn=turn)), daemon=True
    )
    with turn.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        waiting.start()
        assert ready.wait(120.0)
        waited.append("a thousand seconds")
        waiting.join(0.5)
        assert waiting.is_alive()
        assert not (tmp_path / "run" / "model.safetensors").exists()
    waiting.join(120.0)
    assert done[0].finished
    assert 10 < done[0].step <= 150, "a budget counts from the turn on"
    assert 1.5 <= done[0].seconds < 1000.0, "waiting is no work"


def test_only_a_single_process_waits_for_its_turn(tiny: Tiny, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--turn"):
        run(tiny(), tmp_path, turn=tmp_path / "turn", devices=2)
    with pytest.raises(StorageError, match="--turn"):
        run(tiny(), tmp_path, turn=tmp_path / "no" / "turn")
