"""RAdam or Adam over one flat buffer."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from catnf.training.config import TrainingConfig

_CPU_PIECE = 1 << 17
"""Numbers that the optimizer handles at once on a CPU: its ten passes over them then stay in the cache."""


class FlatAdam:
    """Torch's optimizer over a flat buffer, seen as one parameter on a GPU and as pieces on a CPU.

    Args:
        values: flat parameters.
        gradient: of the same layout.
        rate: 0-d tensor with the learning rate, read in every step.
        config: kind and decay rates.
    """

    def __init__(self, values: Tensor, gradient: Tensor, rate: Tensor, config: TrainingConfig) -> None:
        on_gpu = values.is_cuda
        self.first, self.second = torch.zeros_like(values), torch.zeros_like(values)
        size = len(values) if on_gpu else _CPU_PIECE
        ranges = [slice(start, start + size) for start in range(0, len(values), size)]
        pieces = [nn.Parameter(values[piece]) for piece in ranges]
        kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.RAdam
        self.optimizer = kind(pieces, lr=rate, betas=(0.9, config.beta2), foreach=False, capturable=on_gpu)
        # The state is made here and not in the first step, so that a checkpoint can be loaded into it.
        self.steps = [torch.zeros((), device=values.device if on_gpu else None) for _ in pieces]
        for parameter, piece, step in zip(pieces, ranges, self.steps, strict=True):
            parameter.grad = gradient[piece]
            self.optimizer.state[parameter] = {
                "step": step,
                "exp_avg": self.first[piece],
                "exp_avg_sq": self.second[piece],
            }

    def state(self) -> dict[str, Tensor]:
        """Both moments and the number of steps."""
        return {"step": self.steps[0], "exp_avg": self.first, "exp_avg_sq": self.second}

    @torch.no_grad()
    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state()`."""
        self.first.copy_(state["exp_avg"])
        self.second.copy_(state["exp_avg_sq"])
        for step in self.steps:
            step.copy_(state["step"])
