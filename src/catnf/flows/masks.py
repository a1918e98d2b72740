"""Which part of the latents a coupling keeps and which it transforms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn


class Mask(Protocol):
    """Splits latents `[batch, elements, channels]` for a coupling."""

    def conditioner_channels(self, channels: int) -> int:
        """Channels that the conditioner gets to see."""

    def changed_channels(self, channels: int) -> int:
        """Channels that are transformed."""

    def kept(self, z: Tensor) -> Tensor:
        """The conditioner's input `[batch, elements, conditioner_channels]`."""

    def changed(self, z: Tensor) -> Tensor:
        """The latents to transform `[batch, elements, changed_channels]`."""

    def join(self, z: Tensor, new: Tensor) -> Tensor:
        """`z` with its changed part replaced by `new`."""

    def select(self, values: Tensor) -> Tensor:
        """Zero `values: [batch, elements, changed_channels]` where nothing is transformed."""


@dataclass(frozen=True)
class ChannelMask:
    """The first half of the channels (rounded down) conditions the other half.

    The split is the same for every element, so couplings stay permutation-equivariant.
    """

    def conditioner_channels(self, channels: int) -> int:
        return channels // 2

    def changed_channels(self, channels: int) -> int:
        return channels - channels // 2

    def kept(self, z: Tensor) -> Tensor:
        return z[..., : z.shape[-1] // 2]

    def changed(self, z: Tensor) -> Tensor:
        return z[..., z.shape[-1] // 2 :]

    def join(self, z: Tensor, new: Tensor) -> Tensor:
        return torch.cat([self.kept(z), new], dim=-1)

    def select(self, values: Tensor) -> Tensor:
        return values


@dataclass(frozen=True)
class WholeMask:
    """Everything is transformed, given nothing of it: for couplings whose parameters come from elsewhere."""

    def conditioner_channels(self, channels: int) -> int:
        return 0

    def changed_channels(self, channels: int) -> int:
        return channels

    def kept(self, z: Tensor) -> Tensor:
        return z[..., :0]

    def changed(self, z: Tensor) -> Tensor:
        return z

    def join(self, z: Tensor, new: Tensor) -> Tensor:
        return new

    def select(self, values: Tensor) -> Tensor:
        return values


class ChessMask(nn.Module):
    """Every other run of elements conditions its neighbours; works with a single channel.

    Args:
        parity: 0 keeps the first run and transforms the second, and so on; 1 the other way round.
        run: elements that follow each other and are treated alike.
    """

    parity: Tensor
    run: Tensor

    def __init__(self, parity: int, run: int = 1) -> None:
        super().__init__()
        # Tensors, so that couplings with different masks share one compiled program.
        self.register_buffer("parity", torch.tensor(parity), persistent=False)
        self.register_buffer("run", torch.tensor(run), persistent=False)

    def conditioner_channels(self, channels: int) -> int:
        return channels + 1

    def changed_channels(self, channels: int) -> int:
        return channels

    def kept(self, z: Tensor) -> Tensor:
        # A kept latent may be zero, so the conditioner is also told which elements it sees.
        keep = self._keep(z)
        return torch.cat([z * keep, keep.expand(z.shape[0], -1, 1)], dim=-1)

    def changed(self, z: Tensor) -> Tensor:
        return z

    def join(self, z: Tensor, new: Tensor) -> Tensor:
        keep = self._keep(z)
        return z * keep + new * (1.0 - keep)

    def select(self, values: Tensor) -> Tensor:
        return values * (1.0 - self._keep(values))

    def _keep(self, z: Tensor) -> Tensor:
        index = torch.arange(z.shape[1], device=z.device)
        return ((index // self.run + self.parity) % 2 == 0).to(z.dtype).view(1, -1, 1)


def chess_mask(index: int, elements: int | None = None) -> ChessMask:
    """The mask of step `index`: both parities in turn, then again with runs of twice the length.

    With runs of one element only, elements at even places would never condition each other; with runs of
    1, 2, 4, ... any two elements of an example of `elements` are on different sides of some mask.
    """
    lengths = 1 if elements is None else max(1, (elements - 1).bit_length())
    return ChessMask(index % 2, 1 << (index // 2 % lengths))
