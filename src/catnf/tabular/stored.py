"""Fitted tables on disk: safetensors with everything else as JSON in the header."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from catnf.errors import StorageError
from catnf.models.table_flow import TableFlow
from catnf.storage import load_tensors, save_tensors
from catnf.tabular.coding import TableCode
from catnf.tabular.fitting import Sizes, build
from catnf.tabular.frames import Library
from catnf.tabular.schema import Column

KIND = "table"
FILE = "model.safetensors"


@dataclass(frozen=True)
class FittedTable:
    """What a fit leaves.

    Attributes:
        code: how cells are encoded.
        sizes: of the model.
        model: `None` where every column is constant.
        library: that the fitted table came from.
        dtypes: polars' dtypes of its columns, where it came from there.
        steps: of training.
        held_out: mean log-likelihood of held-out rows while training, in nats.
        seconds: of training.
    """

    code: TableCode
    sizes: Sizes
    model: TableFlow | None
    library: Library
    dtypes: dict[str, str]
    steps: int
    held_out: float | None
    seconds: float


def save_table(path: Path, fitted: FittedTable, parameters: Mapping[str, Any]) -> Path:
    """Write a fitted table to a file, or to `model.safetensors` in a folder."""
    target = path if path.suffix == ".safetensors" else path / FILE
    header = {
        "kind": KIND,
        "parameters": {
            name: list(value) if isinstance(value, tuple | list) else value
            for name, value in parameters.items()
        },
        "columns": [asdict(column) for column in fitted.code.columns],
        "rows": fitted.code.rows,
        "imputes": fitted.code.imputes,
        "sizes": asdict(fitted.sizes),
        "library": fitted.library,
        "dtypes": fitted.dtypes,
        "steps": fitted.steps,
        "held_out": fitted.held_out,
        "seconds": round(fitted.seconds, 1),
    }
    state = {} if fitted.model is None else fitted.model.state_dict()
    save_tensors(target, state or {"empty": torch.zeros(1)}, header)
    return target


def load_table(path: Path) -> tuple[FittedTable, dict[str, Any]]:
    """What `save_table` wrote, and the estimator's parameters."""
    file = path / FILE if path.is_dir() else path
    if file.is_file() and file.suffix != ".safetensors":
        raise StorageError(
            f"{file} is no model of a table; give the folder or .safetensors file of `catnf fit`."
        )
    tensors, header = load_tensors(file)
    if header.get("kind") != KIND:
        raise StorageError(
            f"{file} holds no table model; give what `catnf fit` or CategoricalFlow.save wrote."
        )
    try:
        columns = tuple(_column(values) for values in header["columns"])
        code = TableCode(columns, int(header["rows"]), bool(header.get("imputes", False)))
        sizes = Sizes(**header["sizes"])
        model = _model(code, sizes, tensors) if code.sizes or code.numeric else None
        fitted = FittedTable(
            code,
            sizes,
            model,
            header["library"],
            dict(header["dtypes"]),
            int(header["steps"]),
            header["held_out"],
            float(header["seconds"]),
        )
        return fitted, dict(header["parameters"])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise StorageError(f"{file} is damaged, or from another version of catnf ({error}).") from error


def _model(code: TableCode, sizes: Sizes, tensors: Mapping[str, torch.Tensor]) -> TableFlow:
    frequencies = torch.zeros(len(code.sizes), max(code.sizes, default=1))
    for element, size in enumerate(code.sizes):
        frequencies[element, :size] = 1.0 / size
    model = build(code, sizes, frequencies)
    model.load_state_dict(dict(tensors))
    return model.eval()


def _column(values: Mapping[str, Any]) -> Column:
    lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return Column(**{**values, **lists})
