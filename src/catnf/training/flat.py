"""All parameters of a model in one buffer.

An optimizer walks hundreds of small tensors slowly; over one buffer it is a handful of operations, a
gradient norm is one reduction, and a gradient travels between processes in one message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

import torch
from torch import Tensor, nn

from catnf.errors import StorageError
from catnf.nets.linear import AlignedLinear
from catnf.nets.network import Network
from catnf.training.muon import Stack

_ALIGNMENT = 64
"""Views start at multiples of this many numbers: GPU kernels assume aligned tensors."""


class FlatParameters:
    """Moves a model's parameters into one float32 buffer, `values`, of which they become views.

    Networks (`catnf.nets.Network`) may compute in a lower precision: their parameters are then views of a
    copy in that dtype, which `refresh` brings up to date after every change of `values`.

    Args:
        model: its parameters are re-pointed in place.
        network_dtype: dtype of the networks' parameters.
    """

    def __init__(self, model: nn.Module, network_dtype: torch.dtype = torch.float32) -> None:
        in_networks = {
            id(p) for m in model.modules() if isinstance(m, Network) for p in m.parameters(recurse=True)
        }
        matrices = _hidden_matrices(model)
        self.weights = matrices.keys() | {
            id(layer.weight)
            for network in model.modules()
            if isinstance(network, Network)
            for layer in network.modules()
            if isinstance(layer, nn.Linear)
        }
        named = dict(model.named_parameters())

        def place(name: str) -> tuple[bool, bool, tuple[int, ...]]:
            # Network parameters come first, so that their low-precision copy is one contiguous range, and
            # first among them the hidden matrices, those of one shape together.
            p = named[name]
            parts = matrices.get(id(p), 0)
            return id(p) not in in_networks, not parts, (*p.shape, parts) if parts else ()

        self.names = sorted(named, key=place)
        self.parameters = [named[name] for name in self.names]
        self.shapes = [p.shape for p in self.parameters]
        self.offsets: list[int] = []
        end = 0
        self.network_end = 0
        for parameter in self.parameters:
            self.offsets.append(end)
            end += _aligned(parameter.numel())
            if id(parameter) in in_networks:
                self.network_end = end
        device = self.parameters[0].device
        self.values = nn.Parameter(torch.zeros(end, device=device))
        self.values.grad = torch.zeros_like(self.values)
        self.network_copy: Tensor | None = None
        if network_dtype != torch.float32 and self.network_end:
            self.network_copy = torch.zeros(self.network_end, device=device, dtype=network_dtype)
        with torch.no_grad():
            for view, parameter, offset in zip(
                self.views(self.values), self.parameters, self.offsets, strict=True
            ):
                view.copy_(parameter)
                low = self.network_copy is not None and offset < self.network_end
                parameter.data = self._view(self.network_copy, parameter, offset) if low else view
        self.stacks = self._find_stacks(matrices)
        self.filler = {p.dtype: p.new_zeros(_ALIGNMENT) for p in self.parameters}
        self.refresh()

    def views(self, flat: Tensor) -> list[Tensor]:
        """The parameter-shaped pieces of a buffer laid out like `values`."""
        pairs = zip(self.shapes, self.offsets, strict=True)
        return [flat.detach()[o : o + s.numel()].view(s) for s, o in pairs]

    def collect(self, gradients: Sequence[Tensor | None]) -> None:
        """Copy the parameters' gradients, `None` where there is none, into `values.grad`."""
        assert self.values.grad is not None
        # One concatenation per dtype: a copy for each of hundreds of small tensors takes far longer.
        split = sum(offset < self.network_end for offset in self.offsets)
        for start, pieces in ((0, gradients[:split]), (split, gradients[split:])):
            if pieces:
                end = self.offsets[split] if start < split < len(self.offsets) else len(self.values)
                target = self.values.grad[self.offsets[start] : end]
                padded = self._padded(pieces, start)
                if padded[0].dtype == target.dtype:
                    torch.cat(padded, out=target)
                else:
                    target.copy_(torch.cat(padded))

    def _padded(self, gradients: Sequence[Tensor | None], start: int) -> list[Tensor]:
        out = []
        for index, gradient in enumerate(gradients, start):
            parameter = self.parameters[index]
            out.append((parameter.new_zeros(parameter.shape) if gradient is None else gradient).reshape(-1))
            missing = -parameter.numel() % _ALIGNMENT
            if missing:
                out.append(self.filler[parameter.dtype][:missing])
        return out

    @torch.no_grad()
    def refresh(self) -> None:
        """Bring the networks' low-precision copy up to date with `values`."""
        if self.network_copy is not None:
            self.network_copy.copy_(self.values[: self.network_end])

    def matrices(self) -> Tensor:
        """1 at the matrices of linear and recurrent layers of networks, 0 elsewhere: like `values`."""
        marks = torch.zeros_like(self.values)
        for view, identity in zip(self.views(marks), map(id, self.parameters), strict=True):
            view.fill_(float(identity in self.weights))
        return marks

    def named(self, flat: Tensor) -> dict[str, Tensor]:
        """A buffer laid out like `values` as named tensors."""
        return dict(zip(self.names, self.views(flat), strict=True))

    @torch.no_grad()
    def load(self, flat: Tensor) -> None:
        """Set `values` from a stored buffer."""
        if flat.shape != self.values.shape:
            raise StorageError(
                f"The checkpoint holds {flat.numel()} numbers where this model has {self.values.numel()}; "
                "it belongs to another configuration."
            )
        self.values.copy_(flat)
        self.refresh()

    def _find_stacks(self, matrices: Mapping[int, int]) -> list[Stack]:
        """Where hidden matrices of one shape follow each other."""
        hidden = [
            (p.shape, matrices[id(p)], o)
            for p, o in zip(self.parameters, self.offsets, strict=True)
            if id(p) in matrices
        ]
        stacks = []
        for (shape, parts), run in groupby(hidden, key=lambda item: item[:2]):
            offsets = [offset for _, _, offset in run]
            stride = _aligned(shape.numel()) // parts
            stacks.append(Stack(offsets[0], len(offsets) * parts, shape[0] // parts, shape[1], stride))
        return stacks

    @staticmethod
    def _view(flat: Tensor | None, parameter: Tensor, offset: int) -> Tensor:
        assert flat is not None
        return flat[offset : offset + parameter.numel()].view(parameter.shape)


def _aligned(numbers: int) -> int:
    return -(-numbers // _ALIGNMENT) * _ALIGNMENT


def _hidden_matrices(model: nn.Module) -> dict[int, int]:
    """Of how many matrices, one below another, the weights between hidden layers consist, by identity.

    They are those of plain linear layers inside networks, and those of recurrent ones: a matrix for each of
    the four gates.
    """
    inside = [
        layer for network in model.modules() if isinstance(network, Network) for layer in network.modules()
    ]
    linear = {
        id(layer.weight): 1
        for layer in inside
        if isinstance(layer, nn.Linear) and not isinstance(layer, AlignedLinear)
    }
    recurrent = {
        id(weight): 4 if weight.numel() // 4 % _ALIGNMENT == 0 else 1
        for layer in inside
        if isinstance(layer, nn.LSTM)
        for weight in layer.parameters()
        if weight.dim() == 2
    }
    return linear | recurrent
