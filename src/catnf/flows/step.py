"""The repeating unit of a flow, and stacks of it."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from catnf.flows.actnorm import ActNorm
from catnf.flows.coupling import AffineCoupling, Coupling, MixtureCoupling
from catnf.flows.linear import InvertibleLinear
from catnf.flows.masks import ChannelMask, Mask, chess_mask
from catnf.flows.transform import Sequential, Transform

Conditioner = Callable[[int, int], nn.Module]
"""Makes a conditioner for a number of inputs and of outputs."""


class FlowStep(Sequential):
    """Activation norm, invertible linear map (with more than one channel), coupling.

    Steps are what engines compile: all steps of a flow share one compiled program.
    """

    compile_unit = True

    def __init__(self, coupling: Coupling, channels: int, normalization: Transform | None = None) -> None:
        parts: list[Transform] = [normalization if normalization is not None else ActNorm(channels)]
        if channels > 1:
            parts.append(InvertibleLinear(channels))
        super().__init__([*parts, coupling])


def step_mask(channels: int, index: int, elements: int | None = None) -> Mask:
    """Channel mask where there are channels to split, alternating chess masks otherwise."""
    return ChannelMask() if channels > 1 else chess_mask(index, elements)


def mixture_steps(
    channels: int, layers: int, mixtures: int, conditioner: Conditioner, elements: int | None = None
) -> Sequential:
    """A flow of `layers` steps with mixture couplings.

    Args:
        channels: latent channels.
        layers: the number of steps.
        mixtures: logistics in a coupling.
        conditioner: makes the conditioners.
        elements: of an example, where it is known; only chess masks make use of it.
    """
    steps = []
    for index in range(layers):
        mask = step_mask(channels, index, elements)
        outputs = MixtureCoupling.outputs(channels, mask, mixtures)
        network = conditioner(mask.conditioner_channels(channels), outputs)
        steps.append(FlowStep(MixtureCoupling(network, channels, mask, mixtures), channels))
    return Sequential(steps)


def affine_steps(channels: int, layers: int, conditioner: Conditioner) -> Sequential:
    """A flow of `layers` steps with affine couplings."""
    steps = []
    for index in range(layers):
        mask = step_mask(channels, index)
        network = conditioner(mask.conditioner_channels(channels), AffineCoupling.outputs(channels, mask))
        steps.append(FlowStep(AffineCoupling(network, channels, mask), channels))
    return Sequential(steps)
