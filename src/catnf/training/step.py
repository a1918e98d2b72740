"""One training step: gradients, then update.

On a GPU both halves are captured once as CUDA graphs and replayed: a step then costs two launches and
no host synchronisation, whatever the number of kernels inside. Every bucket of examples has a graph of
gradients of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from catnf.models.model import Model
from catnf.tasks.task import Task
from catnf.training.adam import FlatAdam
from catnf.training.config import TrainingConfig
from catnf.training.flat import FlatParameters
from catnf.training.muon import Muon
from catnf.training.schedules import average_decay, choose_bucket, rate_factor, reconstruction_weight


def compile_units(module: nn.Module) -> None:
    """Compile the outermost parts of `module` that call themselves a `compile_unit`.

    Parts of one class share programs, one for every combination of shapes, which are more than torch expects.
    """
    torch._dynamo.config.recompile_limit = max(64, torch._dynamo.config.recompile_limit)
    _compile_units(module)


def _compile_units(module: nn.Module) -> None:
    if not getattr(module, "compile_unit", False):
        for child in module.children():
            _compile_units(child)
        return
    module.compile(dynamic=False)
    # Compiled at their first use: training never makes one of an inverse. Couplings have the other two, where
    # one network predicts for several.
    for name in ("inverse", "change", "restore"):
        if hasattr(module, name):
            setattr(module, name, torch.compile(getattr(module, name), dynamic=False))


def capture(work: Callable[[], None], generator: torch.Generator) -> Callable[[], None]:
    """`work` as a CUDA graph: what to call instead of it. Runs it a few times to warm up.

    Args:
        work: reads and writes the same tensors in every call, and never waits for the device.
        generator: the randomness that `work` draws from.
    """
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def _sum(one: Tensor | None, two: Tensor | None) -> Tensor | None:
    """The sum of two gradients, where no gradient is zero."""
    return two if one is None else one if two is None else one + two


def persistent_buffers(model: nn.Module) -> dict[str, Tensor]:
    """The buffers that belong to a model's state."""
    stored = model.state_dict().keys()
    return {name: buffer for name, buffer in model.named_buffers() if name in stored}


def stored_buffers(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The model's buffers in the `state()` of a step, by their names in the model."""
    return {key.removeprefix(_BUFFER): value for key, value in state.items() if key.startswith(_BUFFER)}


_BUFFER = "buffer."

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
        self.network_dtype = network_dtype
        self.reduce = reduce
        self.flat = FlatParameters(model, network_dtype)
        device = self.flat.values.device
        self.average = self.flat.values.detach().clone()
        self.rate = torch.zeros((), device=device)
        self.weight = torch.ones((), device=device)
        self.blend = torch.ones((), device=device)
        self.losses = torch.zeros(LOSS_SLOTS, device=device)
        self.slot = torch.zeros(1, dtype=torch.int64, device=device)
        self.index = 0  # of the next step
        self.unread = 0
        self.matrix_rate = torch.zeros((), device=device)
        gradient = self.flat.values.grad
        assert gradient is not None
        stacks = self.flat.stacks if config.optimizer == "muon" else []
        self.muon = Muon(self.flat.values.detach(), gradient, stacks, self.matrix_rate, dtype=network_dtype)
        self.adam = FlatAdam(
            self.flat.values.detach()[self.muon.end :], gradient[self.muon.end :], self.rate, config
        )
        self.decayed = self.flat.matrices() * config.weight_decay if config.weight_decay > 0 else None
        self._optimize: Callable[[], object] = self.adam.optimizer.step
        self.buckets = task.buckets()
        self._gradients: list[Callable[[], None]] = [
            partial(self._compute_gradients, bucket) for bucket in range(len(self.buckets))
        ]
        self._change: Callable[[], None] = self._compute_update
        if accelerate and device.type == "cuda":
            self._accelerate()

    def __call__(self, elapsed: float = 0.0) -> None:
        """Make one step; `elapsed` is the share of a time budget that is spent."""
        factor = rate_factor(self.config, self.index, elapsed)
        self.rate.fill_(self.config.learning_rate * factor)
        self.matrix_rate.fill_(self.config.matrix_learning_rate * factor)
        self.weight.fill_(reconstruction_weight(self.config, self.index))
        self.blend.fill_(1.0 - average_decay(self.config, self.index))
        self._gradients[choose_bucket(self.buckets, self.index)]()
        if self.reduce is not None:
            assert self.flat.values.grad is not None
            self.reduce(self.flat.values.grad)
        self._change()
        self.index += 1
        self.unread += 1

    def read_losses(self) -> Tensor:
        """The bounds of the steps since the last read, in nats per variable, `[steps]`, on the CPU."""
        losses = self.losses[: self.unread].to("cpu", copy=True)
        self.slot.zero_()
        self.unread = 0
        return losses

    def state(self) -> dict[str, Tensor]:
        """All that the next step depends on, as tensors."""
        return {
            "values": self.flat.values.detach(),
            "average": self.average,
            "random": self.generator.get_state(),
            "optimizer.momentum": self.muon.momentum,
            **{f"optimizer.{name}": moment for name, moment in self.adam.state().items()},
            **{_BUFFER + name: buffer for name, buffer in persistent_buffers(self.model).items()},
        }

    @torch.no_grad()
    def load_state(self, state: Mapping[str, Tensor], index: int) -> None:
        """Go on from `state()` of a run that has made `index` steps.

        Without `random`, which belongs to one process, the generator stays as it is.
        """
        self.flat.load(state["values"])
        self.average.copy_(state["average"])
        self.muon.momentum.copy_(state["optimizer.momentum"])
        self.adam.load_state({name: state[f"optimizer.{name}"] for name in self.adam.state()})
        for name, buffer in persistent_buffers(self.model).items():
            buffer.copy_(state[_BUFFER + name])
        if "random" in state:
            # A copy, because torch ignores where in its storage a view starts.
            self.generator.set_state(state["random"].clone())
        self.index = index

    def _compute_gradients(self, bucket: int) -> None:
        total = torch.zeros_like(self.weight)
        gradients: Sequence[Tensor | None] | None = None
        for x, ctx, share in self.task.parts(self.config.batch, self.generator, bucket):
            loss, nats = self.model.loss(x, ctx, self.generator, self.weight)
            # Gradients of every parameter at once, copied in one go: no zeroing and no separate additions.
            more = torch.autograd.grad(share * loss, self.flat.parameters, allow_unused=True)
            gradients = (
                more if gradients is None else [_sum(a, b) for a, b in zip(gradients, more, strict=True)]
            )
            total = total + share * nats
        assert gradients is not None
        with torch.no_grad():
            self.flat.collect(gradients)
            self.losses.index_copy_(0, self.slot, total.view(1))
            self.slot.add_(1)

    @torch.no_grad()
    def _compute_update(self) -> None:
        gradient = self.flat.values.grad
        assert gradient is not None
        norm = torch.linalg.vector_norm(gradient)
        gradient.mul_((self.config.clip / (norm + 1e-6)).clamp(max=1.0))
        if self.decayed is not None:
            self.flat.values.sub_(self.flat.values * self.decayed * self.rate)
        self.muon.step()
        self._optimize()
        self.average.lerp_(self.flat.values, self.blend)
        self.flat.refresh()

    def _accelerate(self) -> None:
        compile_units(self.model)
        self._optimize = torch.compile(self.adam.optimizer.step, dynamic=False)
        # Warming up makes steps that do not count.
        saved = {name: tensor.clone() for name, tensor in self.state().items()}
        self._gradients = [capture(compute, self.generator) for compute in self._gradients]
        self._change = capture(self._compute_update, self.generator)
        self.load_state(saved, 0)
        self.slot.zero_()
