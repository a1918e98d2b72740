"""One step over and over: a loop on a CPU; on a GPU a CUDA graph, since launching small kernels costs more
than they do.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Index = int | Tensor
"""Of a repetition: a plain number on a CPU; on a GPU a tensor `[]`, which a graph counts up by itself."""

_WORTH_A_GRAPH = 4  # repetitions; recording one takes about as long as making it


def repeat(body: Callable[[Index], None], times: int, device: torch.device) -> None:
    """Call `body` with 0, 1, ..., `times - 1`.

    Args:
        body: changes tensors in place, always the same ones; given a tensor, its kernels and their shapes do
            not depend on the index.
        times: how often.
        device: where `body` computes.
    """
    if not counts_on_device(device):
        for index in range(times):
            body(index)
        return
    count = torch.zeros((), dtype=torch.int64, device=device)

    def step() -> None:
        body(count)
        count.add_(1)

    step()  # as usual: the first of its kind may compile kernels and allocate workspaces
    left = times - 1
    if left < _WORTH_A_GRAPH or device.type != "cuda" or torch.cuda.is_current_stream_capturing():
        for _ in range(left):
            step()
        return
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for _ in range(left):
        graph.replay()
    torch.cuda.current_stream(device).synchronize()  # what the graph works with goes with it


def counts_on_device(device: torch.device) -> bool:
    """Whether indices are tensors: where waiting for the device to answer would cost time."""
    return device.type == "cuda"


def at(values: Tensor, dim: int, index: Index) -> Tensor:
    """The element `index` of `values` along `dim`, which stays with a size of 1."""
    if isinstance(index, int):
        return values.narrow(dim, index, 1)
    return values.index_select(dim, index.view(1))


def put(target: Tensor, dim: int, index: Index, values: Tensor) -> None:
    """Write `values`, of size 1 along `dim`, over the element `index` of `target`."""
    if isinstance(index, int):
        target.narrow(dim, index, 1).copy_(values)
    else:
        target.index_copy_(dim, index.view(1), values.to(target.dtype))
