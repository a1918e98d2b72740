"""How a model is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from catnf.errors import InputError


@dataclass(frozen=True)
class TrainingConfig:
    """Optimization settings; the defaults are the paper's for sets."""

    steps: int = 100_000
    batch: int = 1024  # examples of a step, on every process
    optimizer: Literal["radam", "adam", "muon"] = "radam"  # muon: for hidden matrices, RAdam for the rest
    learning_rate: float = 7.5e-4
    matrix_learning_rate: float = 0.02  # of muon
    schedule: Literal["exponential", "cosine"] = "exponential"
    decay: float = 0.999975  # factor a step, exponential schedule
    warmup: int = 0  # steps of linear rise
    beta2: float = 0.999
    clip: float = 0.25  # global norm of the gradient
    average: float = 0.999  # decay of the weight average that is evaluated, 0 for none
    reconstruction_start: float = 2.0  # weight of log p(x|z) at the start, 1 for none
    reconstruction_hold: int = 0  # steps before it decays
    reconstruction_half_life: float = 5000.0  # steps in which its excess over the end halves
    reconstruction_end: float = 1.0  # what it decays to
    initialization_batches: int = 16  # for the data-dependent initialization
    weight_decay: float = 0.0  # of the networks' matrices, a step times the learning rate
    validate_every: int = (
        0  # steps between looks at validation data, whose best weights are kept; 0: no looks
    )
    validation_examples: int = 4096  # examples of a look, or all there are
    validation_draws: int = 8  # of the importance-weighted bound in a look
    patience: int = 0  # looks without anything better after which training stops, 0 for none

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "initialization_batches", "validation_examples", "validation_draws"):
            if getattr(self, name) < 1:
                raise InputError(f"training.{name} is {getattr(self, name)}; give at least 1.")
        for name in ("learning_rate", "matrix_learning_rate", "clip", "reconstruction_half_life"):
            if not 0 < getattr(self, name) < 1e38:  # what float32 holds
                raise InputError(
                    f"training.{name} is {getattr(self, name)}; give a number above 0 and below 1e38."
                )
        for name in (
            "warmup",
            "reconstruction_hold",
            "reconstruction_start",
            "reconstruction_end",
            "weight_decay",
            "validate_every",
            "patience",
        ):
            if getattr(self, name) < 0:
                raise InputError(f"training.{name} is {getattr(self, name)}; give 0 or more.")
        for name in ("average", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"training.{name} is {getattr(self, name)}; give one from 0 to below 1.")
        if not 0 < self.decay <= 1:
            raise InputError(f"training.decay is {self.decay}; give a factor above 0 and up to 1.")
        if self.patience and not self.validate_every:
            raise InputError(
                f"training.patience is {self.patience}, but nothing is validated; "
                "give training.validate_every."
            )
