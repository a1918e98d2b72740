"""One training step: gradients, then update.

On a GPU both halves are captured once as CUDA graphs and replayed: a step then costs two launches and
no host synchronisation, whatever the number of kernels inside.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from catnf.models.model import Model
from catnf.tasks.task import Task
from catnf.training.config import TrainingConfig
from catnf.training.flat import FlatParameters
from catnf.training.schedules import learning_rate, reconstruction_weight


def compile_units(module: nn.Module) -> None:
    """Compile the outermost parts of `module` that call themselves a `compile_unit`."""
    if getattr(module, "compile_unit", False):
        module.compile(dynamic=False)
        return
    for child in module.children():
        compile_units(child)


LOSS_SLOTS = 4096
"""Losses are kept on the device and read back in one piece; at most this many between two reads."""


class TrainingStep:
    """Holds everything a step reads and writes: parameters, optimizer, average, schedules, losses.

    Args:
        model: already on its device and initialized.
        task: source of the batches.
        config: optimization settings.
        generator: randomness of batches and encodings, on the model's device.
        reduce: averages a gradient over processes in place; `None` with a single process.
        accelerate: compile the flow's steps and capture graphs (GPU only).
        network_dtype: precision of the networks.
    """

    def __init__(
        self,
        model: Model,
        task: Task,
        config: TrainingConfig,
        generator: torch.Generator,
        reduce: Callable[[Tensor], None] | None = None,
        accelerate: bool = False,
        network_dtype: torch.dtype = torch.float32,
    ) -> None:
        self.model, self.task, self.config, self.generator = model, task, config, generator
        self.reduce = reduce
        self.flat = FlatParameters(model, network_dtype)
        device = self.flat.values.device
        self.average = self.flat.values.detach().clone()
        self.rate = torch.zeros((), device=device)
        self.weight = torch.ones((), device=device)
        self.losses = torch.zeros(LOSS_SLOTS, device=device)
        self.slot = torch.zeros(1, dtype=torch.int64, device=device)
        self.index = 0  # of the next step
        self.unread = 0
        kind = torch.optim.RAdam if config.optimizer == "radam" else torch.optim.Adam
        self.optimizer = kind(
            [self.flat.values],
            lr=self.rate,
            betas=(0.9, config.beta2),
            foreach=False,
            capturable=device.type == "cuda",
        )
        self._optimize: Callable[[], object] = self.optimizer.step
        self._gradients: Callable[[], None] = self._compute_gradients
        self._change: Callable[[], None] = self._compute_update
        if accelerate and device.type == "cuda":
            self._accelerate()

    def __call__(self) -> None:
        """Make one step."""
        self.rate.fill_(learning_rate(self.config, self.index))
        self.weight.fill_(reconstruction_weight(self.config, self.index))
        self._gradients()
        if self.reduce is not None:
            assert self.flat.values.grad is not None
            self.reduce(self.flat.values.grad)
        self._change()
        self.index += 1
        self.unread += 1

    def read_losses(self) -> Tensor:
        """The bounds of the steps since the last read, in nats per variable, `[steps]`, on the CPU."""
        losses = self.losses[: self.unread].cpu()
        self.slot.zero_()
        self.unread = 0
        return losses

    def _compute_gradients(self) -> None:
        x, ctx = self.task.batch(self.config.batch, self.generator)
        loss, nats = self.model.loss(x, ctx, self.generator, self.weight)
        # Gradients of every parameter at once, copied in one go: no zeroing and no separate additions.
        gradients = torch.autograd.grad(loss, self.flat.parameters, allow_unused=True)
        with torch.no_grad():
            self.flat.collect(gradients)
            self.losses.index_copy_(0, self.slot, nats.view(1))
            self.slot.add_(1)

    @torch.no_grad()
    def _compute_update(self) -> None:
        gradient = self.flat.values.grad
        assert gradient is not None
        norm = torch.linalg.vector_norm(gradient)
        gradient.mul_((self.config.clip / (norm + 1e-6)).clamp(max=1.0))
        self._optimize()
        if self.config.average > 0:
            self.average.lerp_(self.flat.values, 1.0 - self.config.average)
        else:
            self.average.copy_(self.flat.values)
        self.flat.refresh()

    def _accelerate(self) -> None:
        compile_units(self.model)
        self._optimize = torch.compile(self.optimizer.step, dynamic=False)
        saved = self._snapshot()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):  # compiles, fills caches and makes the optimizer's state
                self._compute_gradients()
                self._compute_update()
        torch.cuda.current_stream().wait_stream(stream)
        self._gradients = self._capture(self._compute_gradients)
        self._change = self._capture(self._compute_update)
        self._restore(saved)

    def _capture(self, work: Callable[[], None]) -> Callable[[], None]:
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.generator)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            work()
        return graph.replay

    def _snapshot(self) -> tuple[Tensor, Tensor]:
        return self.flat.values.detach().clone(), self.generator.get_state()

    @torch.no_grad()
    def _restore(self, saved: tuple[Tensor, Tensor]) -> None:
        values, random = saved
        self.flat.load(values)
        self.average.copy_(values)
        for tensor in self.optimizer.state[self.flat.values].values():
            tensor.zero_()
        self.slot.zero_()
        self.generator.set_state(random)
