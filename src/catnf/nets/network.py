"""The mark of a network that may run in low precision."""

from __future__ import annotations

from torch import nn


class Network(nn.Module):
    """A module that computes in the dtype of its weights, whatever dtype comes in.

    Engines keep the weights of networks in bfloat16 on a GPU; everything else stays in float32.
    """
