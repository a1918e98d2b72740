"""What a run is asked to do, and how it ended."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from catnf.errors import InputError
from catnf.seeds import check_seed
from catnf.training.step import LOSS_SLOTS


@dataclass(frozen=True)
class RunOptions:
    """Where and how long a run trains; what it learns is the experiment's."""

    folder: Path
    seed: int = 0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    devices: int = 1  # processes on a machine, one per device
    nodes: int = 1  # machines
    max_time: float | None = None  # seconds, then the run stops and can be resumed
    budget: float | None = None  # seconds that the learning-rate schedule is fitted into
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # of the networks; auto: bfloat16 on a GPU
    log_every: int = 100  # steps; a process that is alone also logs every two seconds
    checkpoint_every: float = 60.0  # seconds
    restart: bool = False  # forget an earlier run in the folder
    quiet: bool = False
    turn: Path | None = None  # file that is locked while steps are made; a budget then counts from there on

    def check(self) -> None:
        """Raise `InputError` for what cannot be done."""
        if self.devices < 1 or self.nodes < 1:
            raise InputError(f"devices is {self.devices} and nodes {self.nodes}; give at least 1 of each.")
        if self.turn is not None and self.devices * self.nodes > 1:
            raise InputError("Only a single process waits for its turn; leave out --turn, or use 1 device.")
        check_seed(self.seed)
        for name, seconds in (("max_time", self.max_time), ("budget", self.budget)):
            if seconds is not None and not 0 <= seconds < math.inf:
                raise InputError(f"{name} is {seconds}; give a number of seconds.")
        if self.budget == 0:
            raise InputError("budget is 0, but a schedule needs time; give seconds above 0.")
        if not 1 <= self.log_every <= LOSS_SLOTS:
            raise InputError(f"log_every is {self.log_every}; give an integer from 1 to {LOSS_SLOTS}.")
        if self.device == "cuda" and not torch.cuda.is_available():
            raise InputError("Device cuda was asked for, but torch sees no GPU; use --device cpu.")
        if self.device != "cpu" and self.devices > (seen := torch.cuda.device_count()) > 0:
            raise InputError(f"{self.devices} devices were asked for, but torch sees {seen}; use fewer.")


@dataclass(frozen=True)
class RunSummary:
    """How a run ended."""

    folder: Path
    step: int
    steps: int
    seconds: float  # of training, over all resumed pieces
    bits: float | None  # mean bound of the last logged steps, bits per variable
    interrupted: bool
    finished: bool  # all steps were made, the time budget is spent, or nothing better came
