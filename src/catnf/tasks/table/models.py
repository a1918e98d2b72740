"""The paper's models of tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from catnf.encodings import ColumnDequantizationEncoding, ColumnJointEncoding, ColumnMixtureEncoding, Encoding
from catnf.errors import InputError
from catnf.flows.step import Conditioner, mixture_steps
from catnf.models import CategoricalFlow
from catnf.nets import ColumnTransformer
from catnf.tasks.table.data import CategoricalTable
from catnf.tasks.task import Task


@dataclass(frozen=True)
class TableModelConfig:
    """Sizes of a model of tables; the defaults are for hundreds of rows."""

    kind: Literal["table-mixture", "table-latent", "table-dequantization"] = "table-mixture"
    channels: int = 2  # latent channels of a column; dequantization always has 1
    layers: int = 6  # couplings of the flow
    mixtures: int = 8  # logistics in a mixture coupling
    hidden: int = 32  # width of the transformers
    blocks: int = 1  # layers of a transformer
    heads: int = 2  # attention heads
    encoding_layers: int = 2  # couplings of the dequantization's noise
    features: int = 8  # width of the category embedding that encoders see
    reach: float = 10.0  # how many times farther than other weights the tables of encodings move in a step

    def __post_init__(self) -> None:
        for name in ("layers", "mixtures", "hidden", "blocks", "heads", "encoding_layers", "features"):
            if getattr(self, name) < 1:
                raise InputError(f"model.{name} is {getattr(self, name)}; give at least 1.")
        if self.hidden % self.heads:
            raise InputError(
                f"model.hidden is {self.hidden}, which {self.heads} heads do not divide; change either."
            )
        if not self.reach > 0:
            raise InputError(f"model.reach is {self.reach}; give a number above 0.")
        if self.channels < 2 and self.kind != "table-dequantization":
            raise InputError(f"model.channels is {self.channels}; a channel mask needs at least 2.")

    def make(self, task: Task) -> CategoricalFlow:
        """A freshly initialized model for `task`."""
        if not isinstance(task, CategoricalTable):
            raise InputError(
                f"Model {self.kind} is for tables, but {task.name} is none; choose another kind."
            )
        return build_table_model(self, task.column_frequencies())


def build_table_model(config: TableModelConfig, frequencies: torch.Tensor) -> CategoricalFlow:
    """A freshly initialized model of rows.

    Args:
        config: kind and sizes.
        frequencies: of the categories of every column, `[columns, categories]`, 0 where there is none.
    """
    encoding = _encoding(config, frequencies)
    make = column_transformers(config, len(frequencies))
    flow = mixture_steps(encoding.channels, config.layers, config.mixtures, make, len(frequencies))
    return CategoricalFlow(encoding, flow)


def column_transformers(config: TableModelConfig, columns: int, features: int = 0) -> Conditioner:
    """Makes conditioners of the configured size."""

    def make(inputs: int, outputs: int) -> ColumnTransformer:
        widths = (config.hidden, config.blocks, config.heads)
        return ColumnTransformer(inputs, outputs, columns, features, *widths)

    return make


def _encoding(config: TableModelConfig, frequencies: torch.Tensor) -> Encoding:
    exists, columns = frequencies > 0, len(frequencies)
    match config.kind:
        case "table-mixture":
            return ColumnMixtureEncoding(frequencies, config.channels, config.reach)
        case "table-latent":
            make = column_transformers(config, columns)
            encoder = make(config.features, 2 * config.channels)
            decoder = make(config.channels, exists.shape[1])
            return ColumnJointEncoding(
                exists, config.channels, encoder, decoder, config.features, config.reach
            )
        case "table-dequantization":
            informed = column_transformers(config, columns, config.features)
            return ColumnDequantizationEncoding(
                exists, config.encoding_layers, config.mixtures, config.features, informed
            )
        case _:
            raise InputError(f"There is no model of tables {config.kind!r}.")
