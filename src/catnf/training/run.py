"""A training run: a folder with a checkpoint, logs and, at the end, the model."""

from __future__ import annotations

import json
import math
import sys
import time
from contextlib import suppress

import torch
from lightning.fabric import Fabric
from torch import Tensor

from catnf.configuration import to_mapping
from catnf.drawing import loss_curve
from catnf.errors import CatnfError, InputError, StorageError, TrainingError
from catnf.experiments import Experiment
from catnf.fitted import save_model
from catnf.locking import locked
from catnf.provenance import hardware, revision
from catnf.storage import peek_header, save_tensors, write_text
from catnf.tasks.task import Task
from catnf.training.checkpoint import CHECKPOINT, LOSSES, MODEL, Found, clear_folder, find_checkpoint
from catnf.training.interrupt import Interrupt
from catnf.training.logs import LossLog, Progress, TensorBoard
from catnf.training.options import RunOptions, RunSummary
from catnf.training.selection import Selection
from catnf.training.step import TrainingStep, stored_buffers


def train(experiment: Experiment, options: RunOptions) -> RunSummary:
    """Train, or go on training, in `options.folder`.

    The run stops at its last step, after `max_time`, or at Ctrl-C; it can be resumed by the same call. A
    non-finite loss raises `TrainingError` and leaves the last good checkpoint in place.
    """
    start = time.monotonic()
    options.check()
    task = experiment.make_task()
    new = not options.folder.exists()
    found = find_checkpoint(experiment, options.folder, options.seed, options.restart)
    try:
        run = _Run(experiment, task, options, _launch(options), start, found)
    except CatnfError:
        if new:
            with suppress(OSError):  # nothing was written but the folder itself
                options.folder.rmdir()
        raise
    ready = time.monotonic()
    with locked(options.turn), Interrupt() as interrupt:
        run.begin(ready)
        run.loop(interrupt)
    return run.finish(interrupt.requested)


def _launch(options: RunOptions) -> Fabric:
    accelerator = {"auto": "cuda" if torch.cuda.is_available() else "cpu"}.get(options.device, options.device)
    several = options.devices * options.nodes > 1
    fabric = Fabric(
        accelerator=accelerator,
        devices=options.devices,
        num_nodes=options.nodes,
        strategy="ddp" if several else "auto",
    )
    fabric.launch()
    return fabric


class _Run:
    def __init__(
        self,
        experiment: Experiment,
        task: Task,
        options: RunOptions,
        fabric: Fabric,
        start: float,
        found: Found | None,
    ) -> None:
        self.experiment, self.task, self.options = experiment, task, options
        self.fabric, self.start = fabric, start
        self.folder = options.folder
        self.checkpoint = self.folder / CHECKPOINT
        self.before = 0.0  # seconds of earlier pieces
        self.data = task.fingerprint()
        if found is not None and found[1].get("data", self.data) != self.data:
            raise InputError(
                f"{self.folder} holds a run on other data than {task.name} has now; give it the former data, "
                "or use another folder (--output) or --restart."
            )
        device = fabric.device
        generator = torch.Generator(device=device)
        generator.manual_seed(options.seed * 1_000_003 + fabric.global_rank)
        model = experiment.make_model(self.task, options.seed).to(device)
        if found is None:
            config = experiment.training
            # Every process draws the same numbers here, so that all start from the same parameters.
            shared = torch.Generator(device=device).manual_seed(options.seed)
            x, ctx = self.task.batch(config.batch * config.initialization_batches, shared)
            self._say(f"Initializing from {len(x)} examples ...")
            model.initialize(x, ctx, shared)
        low = options.precision == "bfloat16" or (options.precision == "auto" and device.type == "cuda")
        self.step = TrainingStep(
            model,
            self.task,
            experiment.training,
            generator,
            reduce=self._average if fabric.world_size > 1 else None,
            accelerate=device.type == "cuda",
            network_dtype=torch.bfloat16 if low else torch.float32,
        )
        self.selection = Selection(self.step, self.task, experiment.training)
        if found is not None:
            self._resume(*found)
            self._say(f"Going on from step {self.step.index} ...")
        self.first = self.step.index
        self._agree()
        if found is None and fabric.is_global_zero:  # nothing is lost until all is ready
            clear_folder(self.folder, options.restart)
        self.losses = LossLog(self.folder / LOSSES, self.step.index) if fabric.is_global_zero else None
        self.bits: float | None = None
        self.share = 0.0  # of the time budget
        self.uncounted = 0.0  # seconds before the budget counts
        self.last_save = self.last_log = time.monotonic()

    def begin(self, ready: float) -> None:
        """Forget the time since `ready`, in which others had their turn."""
        self.last_save = self.last_log = time.monotonic()
        if self.options.turn is not None:
            self.start += self.last_log - ready
            self.uncounted = self._elapsed()

    def loop(self, interrupt: Interrupt) -> None:
        options, total = self.options, self.experiment.training.steps
        alone = self.fabric.world_size == 1  # several processes can only stop together, where they log
        shown = self.fabric.is_global_zero and not options.quiet
        with Progress(total, self.step.index, self.task.optimum, shown) as progress, self._board() as board:
            self.share = self._share()
            while not self._complete() and not (alone and interrupt.requested):
                self.step(self.share)
                self.selection.look()
                if alone:
                    self.share = self._share()
                if (
                    self.step.index % options.log_every
                    and self.step.index < total
                    and not self.selection.stopped
                    and not (alone and time.monotonic() - self.last_log > 2.0)
                ):
                    continue
                self._log(progress, board)
                self.share = self._share()
                late = options.max_time is not None and self._elapsed() > options.max_time
                if self._any(late or interrupt.requested or self.share >= 1.0):
                    break
                if self._any(time.monotonic() - self.last_save > options.checkpoint_every):
                    self.save()
            if self.step.unread:
                self._log(progress, board)
        if self._complete() and self.step.index > self.first:
            self.selection.look(last=True)

    def _complete(self) -> bool:
        """Whether nothing is left to do: all steps are made, the budget is spent, or nothing better comes."""
        return (
            self.step.index >= self.experiment.training.steps or self.share >= 1.0 or self.selection.stopped
        )

    def save(self) -> None:
        """Write a checkpoint, in place of the last one in a single move."""
        # A finite loss may still have had a gradient that was not, which shows in the next loss only.
        if not bool(torch.isfinite(self.step.flat.values).all()):
            raise TrainingError(self._broken(f"The weights became non-finite by step {self.step.index}"))
        state = {name: tensor for name, tensor in self.step.state().items() if name != "random"}
        random = self.fabric.all_gather(self.step.generator.get_state().to(self.fabric.device))
        assert isinstance(random, Tensor)
        state["random"] = random.reshape(self.fabric.world_size, -1)
        state |= self.selection.state()
        if self.fabric.is_global_zero:
            header = {
                "kind": "checkpoint",
                "experiment": to_mapping(self.experiment),
                "seed": self.options.seed,
                "data": self.data,
                "step": self.step.index,
                "layout": self.step.flat.names,
                "seconds": self._seconds(),
            }
            failed = self._attempt(state, header)
        else:
            failed = None
        # If one process stopped and the others did not know, they would wait for it for ever.
        if self._any(failed is not None):
            raise failed or StorageError(f"The first process could not write {self.checkpoint}.")
        self.last_save = time.monotonic()

    def finish(self, interrupted: bool) -> RunSummary:
        """Save, and write the model and its loss curve once all steps are made."""
        made = self.step.index > self.first
        if made or not self.checkpoint.exists():
            self.save()
        summary = RunSummary(
            folder=self.folder,
            step=self.step.index,
            steps=self.experiment.training.steps,
            seconds=self._seconds(),
            bits=self.bits,
            interrupted=interrupted,
            finished=self._complete(),
        )
        # A run that had nothing left to do keeps its model, with the revision that made it.
        if self.fabric.is_global_zero and (made or not self._has_model()):
            self._write_model(summary)
            assert self.losses is not None
            steps, bits = self.losses.read()
            if steps:  # none where a run is stopped before its first step
                loss_curve(self.folder / "loss.png", steps, bits, self.task.optimum, self.experiment.name)
        return summary

    def _has_model(self) -> bool:
        """Whether the folder has the model of this step: writing it may have failed, or been killed."""
        provenance = peek_header(self.folder / MODEL).get("provenance", {})
        return bool(provenance.get("steps") == self.step.index)

    def _write_model(self, summary: RunSummary) -> None:
        step = self.step
        provenance = {
            "steps": summary.step,
            "seconds": round(summary.seconds, 1),
            "hardware": hardware(self.fabric.device),
            "revision": revision(),
            "torch": torch.__version__,
            "processes": self.fabric.world_size,
            "precision": str(step.network_dtype).removeprefix("torch."),
            "budget": self.options.budget,
        }
        if self.selection.bits is not None:
            provenance |= {"best_step": self.selection.best_step, "validation_bits": self.selection.bits}
        weights = {**step.flat.named(self.selection.weights), **stored_buffers(step.state())}
        save_model(self.folder / MODEL, weights, self.experiment, self.options.seed, provenance)
        write_text(self.folder / "run.json", json.dumps(provenance, indent=2) + "\n")

    def _log(self, progress: Progress, board: TensorBoard) -> None:
        first = self.step.index - self.step.unread
        bits = self.step.read_losses() / math.log(2)
        finite = torch.isfinite(bits)
        if self._any(not bool(finite.all())):
            raise TrainingError(self._not_finite(bits, finite, first))
        if self.fabric.world_size > 1:  # each process had its own examples
            bits = self.fabric.all_reduce(bits.to(self.fabric.device), reduce_op="mean").cpu()  # type: ignore[union-attr]
        self.bits = float(bits.mean())
        if self.losses is not None:
            self.losses.append(first, bits)
            board.write(self.step.index, bits=self.bits, learning_rate=float(self.step.rate))
        progress.update(self.step.index, self.bits, self.share)
        self.last_log = time.monotonic()

    def _not_finite(self, bits: Tensor, finite: Tensor, first: int) -> str:
        bad = int((~finite).int().argmax())
        if bool(finite[bad]):
            return self._broken(f"The loss of another process became non-finite after step {first}")
        return self._broken(f"The loss became {float(bits[bad])} at step {first + bad + 1}")

    def _broken(self, what: str) -> str:
        kept = f" (the checkpoint {self.checkpoint} is from before)" if self.checkpoint.exists() else ""
        return f"{what}{kept}; use a smaller training.learning_rate in another folder or with --restart."

    def _resume(self, state: dict[str, Tensor], header: dict[str, object]) -> None:
        if header.get("layout") != self.step.flat.names:
            raise StorageError(
                f"{self.checkpoint} comes from another version of catnf, with parameters in another order; "
                "start anew with --restart."
            )
        try:
            self._load(state, int(str(header["step"])))
            self.before = float(str(header["seconds"]))
        except (KeyError, ValueError, RuntimeError) as error:
            raise StorageError(
                f"{self.checkpoint} is incomplete ({error}); start anew with --restart."
            ) from error

    def _load(self, state: dict[str, Tensor], index: int) -> None:
        random = state.pop("random")
        if random.shape == (self.fabric.world_size, len(self.step.generator.get_state())):
            state["random"] = random[self.fabric.global_rank].cpu()
        else:  # another device or number of processes: fresh numbers, but never the first ones again
            self.step.generator.manual_seed(hash((self.options.seed, self.fabric.global_rank, index)))
        self.step.load_state(state, index)
        self.selection.load_state(state)

    def _agree(self) -> None:
        """Make sure that all processes start from the same step and the same parameters."""
        if self.fabric.world_size == 1:
            return
        if self._any(self.step.index != self.fabric.broadcast(self.step.index)):
            raise InputError(
                f"The processes found different checkpoints in {self.folder}; "
                "use an --output folder that all machines share."
            )
        self.step.flat.load(self.fabric.broadcast(self.step.flat.values.detach()))

    def _attempt(self, state: dict[str, Tensor], header: dict[str, object]) -> StorageError | None:
        try:
            save_tensors(self.checkpoint, {name: t.cpu() for name, t in state.items()}, header)
        except StorageError as error:
            return error
        return None

    def _say(self, what: str) -> None:
        if self.fabric.is_global_zero and not self.options.quiet:
            print(what, file=sys.stderr)

    def _average(self, gradient: Tensor) -> None:
        gradient.copy_(self.fabric.all_reduce(gradient, reduce_op="mean"))  # type: ignore[arg-type]

    def _any(self, decision: bool) -> bool:
        """Make all processes decide alike: whether any of them decided so."""
        if self.fabric.world_size == 1:
            return decision
        votes = torch.tensor(float(decision), device=self.fabric.device)
        return bool(self.fabric.all_reduce(votes, reduce_op="sum") > 0)  # type: ignore[operator]

    def _board(self) -> TensorBoard:
        return TensorBoard(self.folder / "tensorboard" if self.fabric.is_global_zero else None)

    def _share(self) -> float:
        """The share of the time budget spent, by the first process's clock; 0 without a budget."""
        if self.options.budget is None:
            return 0.0
        # Learning rates follow from it, so that processes must agree; one that is alone need not ask.
        spent = min(1.0, (self._seconds() - self.uncounted) / self.options.budget)
        return spent if self.fabric.world_size == 1 else float(self.fabric.broadcast(spent))

    def _elapsed(self) -> float:
        return time.monotonic() - self.start

    def _seconds(self) -> float:
        return self.before + self._elapsed()
