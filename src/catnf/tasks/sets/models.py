"""The paper's six models of sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from catnf.context import SetContext
from catnf.encodings import (
    DequantizationEncoding,
    Encoding,
    JointEncoding,
    LinearFlowEncoding,
    MixtureEncoding,
    VariationalEncoding,
)
from catnf.errors import InputError
from catnf.flows.step import Conditioner, mixture_steps
from catnf.models import CategoricalFlow, Model
from catnf.models.baselines import DiscreteFlow
from catnf.nets import SetTransformer
from catnf.tasks.task import Task


@dataclass(frozen=True)
class SetModelConfig:
    """Sizes of a set model; the defaults are the paper's."""

    kind: Literal["mixture", "linear", "variational", "latent", "dequantization", "discrete"] = "mixture"
    channels: int = 4  # latent channels of an element; dequantization always has 1, discrete none
    layers: int = 8  # couplings of the flow
    mixtures: int = 8  # logistics in a mixture coupling
    hidden: int = 256  # width of the transformers
    blocks: int = 2  # layers of a transformer
    heads: int = 4  # attention heads
    encoding_layers: int = 4  # couplings of the linear, variational and dequantization encoders
    features: int = 32  # width of the category embedding that encoders see
    reach: float = 10.0  # how many times farther than other weights the tables of encodings move in a step
    shift_temperature: float = 0.1  # of the straight-through softmax of discrete flows

    def __post_init__(self) -> None:
        for name in ("layers", "mixtures", "hidden", "blocks", "heads", "encoding_layers", "features"):
            if getattr(self, name) < 1:
                raise InputError(f"model.{name} is {getattr(self, name)}; give at least 1.")
        for name in ("shift_temperature", "reach"):
            if not getattr(self, name) > 0:
                raise InputError(f"model.{name} is {getattr(self, name)}; give a number above 0.")
        if self.hidden % self.heads:
            raise InputError(
                f"model.hidden is {self.hidden}, which {self.heads} heads do not divide; change either."
            )
        if self.channels < 2 and self.kind not in ("dequantization", "discrete"):
            raise InputError(f"model.channels is {self.channels}; a channel mask needs at least 2.")

    def make(self, task: Task) -> Model:
        """A freshly initialized model for `task`."""
        ctx = task.sample_context(1)
        if not isinstance(ctx, SetContext):
            raise InputError(f"Model {self.kind} is for sets, but {task.name} has none; choose another kind.")
        return build_set_model(self, task.frequencies(), ctx.elements)


def build_set_model(config: SetModelConfig, frequencies: torch.Tensor, elements: int) -> Model:
    """A freshly initialized model of sets.

    Args:
        config: kind and sizes.
        frequencies: training frequencies of the categories, `[categories]`.
        elements: size of the sets; discrete flows are tied to it, and chess masks made for it.
    """
    if config.kind == "discrete":
        return DiscreteFlow(
            frequencies, elements, config.layers, _transformers(config), config.shift_temperature
        )
    encoding = _encoding(config, frequencies, elements)
    flow = mixture_steps(encoding.channels, config.layers, config.mixtures, _transformers(config), elements)
    return CategoricalFlow(encoding, flow)


def _transformers(config: SetModelConfig, features: int = 0) -> Conditioner:
    def make(inputs: int, outputs: int) -> SetTransformer:
        return SetTransformer(inputs, outputs, features, config.hidden, config.blocks, config.heads)

    return make


def _encoding(config: SetModelConfig, frequencies: torch.Tensor, elements: int) -> Encoding:
    categories, channels = len(frequencies), config.channels
    informed = _transformers(config, config.features)
    match config.kind:
        case "mixture":
            return MixtureEncoding(frequencies, channels, reach=config.reach)
        case "linear":
            return LinearFlowEncoding(frequencies, channels, config.encoding_layers, config.features)
        case "variational":
            return VariationalEncoding(
                categories, channels, config.encoding_layers, config.mixtures, config.features, informed
            )
        case "dequantization":
            return DequantizationEncoding(
                categories, config.encoding_layers, config.mixtures, config.features, informed, elements
            )
        case "latent":
            make = _transformers(config)
            encoder, decoder = make(config.features, 2 * channels), make(channels, categories)
            return JointEncoding(categories, channels, encoder, decoder, config.features, config.reach)
        case _:
            raise InputError(f"There is no set model {config.kind!r}.")
