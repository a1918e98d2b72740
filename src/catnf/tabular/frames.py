"""Data frames in and out: pandas, polars, arrays, CSV and Parquet files."""

from __future__ import annotations

import importlib
import io
import lzma
import warnings
import zlib
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import numpy as np

from catnf.errors import InputError, MissingDependencyError, StorageError

Library = Literal["pandas", "polars", "numpy"]
"""Where a table comes from, and what goes back."""

_SUFFIXES = (".csv", ".tsv", ".parquet")


def needed(module: str) -> Any:
    """A module of the extra `table`, or one sentence that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0].replace("sklearn", "scikit-learn")
        raise MissingDependencyError(
            f"Tables need {package}, which is not installed; run pip install 'catnf[table]'."
        ) from error


def to_pandas(table: Any, names: list[str] | None = None) -> tuple[Any, Library]:
    """A table as a pandas frame with text as column names, and the library it came from.

    Args:
        table: a pandas or polars frame, or a two-dimensional array.
        names: of the columns of an array.
    """
    pandas = needed("pandas")
    library: Library
    if isinstance(table, pandas.DataFrame):
        frame, library = table, "pandas"
    elif type(table).__module__.split(".")[0] == "polars":
        if not hasattr(table, "columns") or not hasattr(table, "height"):
            raise InputError(f"{type(table).__name__} is no frame; collect it into a polars DataFrame first.")
        frame, library = _from_polars(table, pandas), "polars"
    else:
        frame, library = _from_array(table, names, pandas), "numpy"
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise InputError(f"Column {twice[0]!r} is there twice; give every column a name of its own.")
    if frame.shape[1] == 0:
        raise InputError("The table has no columns; give at least one.")
    if len(frame) == 0:
        raise InputError("The table has 0 rows; give at least one.")
    return frame, library


def _from_polars(table: Any, pandas: Any) -> Any:
    """Columns one by one, those of whole numbers with gaps as pandas' nullable integers."""
    columns = {}
    for name in table.columns:
        column = table[name]
        if column.dtype.is_integer() and column.null_count():
            columns[name] = pandas.array(column.to_list(), dtype="Int64")
        else:
            columns[name] = column.to_pandas()
    return pandas.DataFrame(columns)


def _from_array(table: Any, names: list[str] | None, pandas: Any) -> Any:
    if hasattr(table, "toarray"):
        raise InputError("Sparse matrices are not supported; give a dense table, for instance X.toarray().")
    values = np.asarray(table)
    if np.iscomplexobj(values):
        raise InputError("Complex data not supported; give real numbers or categories.")
    if values.ndim != 2:
        raise InputError(
            f"The data have {values.ndim} dimension{'s' * (values.ndim != 1)}, not 2. Reshape your data to "
            "rows and columns, or give a data frame."
        )
    if values.shape[1] == 0:
        raise InputError(
            f"0 feature(s) (shape={values.shape}) while a minimum of 1 is required; give at least one column."
        )
    frame = pandas.DataFrame(values, columns=names or [f"x{index}" for index in range(values.shape[1])])
    return frame.infer_objects()


def from_pandas(frame: Any, library: Library, dtypes: dict[str, str] | None = None) -> Any:
    """A pandas frame as the library that the table came from, with polars' own dtypes where given."""
    if library == "pandas":
        return frame
    if library == "numpy":
        return frame.to_numpy()
    polars = needed("polars")
    columns = []
    for name in frame.columns:
        series = frame[name]
        values = [None if gap else value for value, gap in zip(series.tolist(), series.isna(), strict=True)]
        dtype = (dtypes or {}).get(name, "")
        plain = "String" if dtype.startswith(("Categorical", "Enum")) else dtype
        wanted = getattr(polars, plain, None) if plain else None
        column = polars.Series(name, values, dtype=wanted, strict=False)
        columns.append(
            column.cast(polars.Categorical) if dtype.startswith(("Categorical", "Enum")) else column
        )
    return polars.DataFrame(columns)


def polars_dtypes(table: Any) -> dict[str, str]:
    """The dtypes of a polars frame by column; nothing for other tables."""
    if type(table).__module__.split(".")[0] != "polars":
        return {}
    return {name: str(dtype).split("(")[0] for name, dtype in zip(table.columns, table.dtypes, strict=True)}


def read_table(path: Path) -> Any:
    """A CSV, TSV or Parquet file, maybe compressed, as a pandas frame."""
    pandas = needed("pandas")
    kind = _kind(path)
    try:
        if kind == ".parquet":
            needed("pyarrow")
            return _whole(pandas.read_parquet(path))
        separator = "\t" if kind == ".tsv" else ","
        first = pandas.read_csv(path, sep=separator, header=None, nrows=1, dtype=str, encoding="utf-8-sig")
        names = [str(name) for name in first.iloc[0]]
        if len(set(names)) < len(names):  # pandas would rename them without a word
            name = next(name for name, times in Counter(names).items() if times > 1)
            raise InputError(f"{path} has the column {name!r} twice; give every column a name of its own.")
        others = [mark for mark in ";\t,|" if mark != separator and mark in names[0]]
        if len(names) == 1 and others:
            raise InputError(
                f"{path} has a single column {names[0]!r}, which looks like several with {others[0]!r} "
                f"between them; save it with {separator!r} between columns."
            )
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            # Or a row that is longer than the header would make a name of its first cell.
            frame = pandas.read_csv(
                path, sep=separator, encoding="utf-8-sig", low_memory=False, index_col=False
            )
        return _whole(frame)
    except InputError:
        raise
    except pandas.errors.ParserWarning as error:
        raise InputError(
            f"{path} has rows with more cells than its header; give every column a name."
        ) from error
    except (EOFError, lzma.LZMAError, zlib.error) as error:
        raise StorageError(f"{path} is cut off or damaged; give a whole file.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text; save it as such or give another file.") from error
    except pandas.errors.EmptyDataError as error:
        raise InputError(f"{path} is empty; give a table with a header and rows.") from error
    except (pandas.errors.ParserError, ValueError) as error:
        raise InputError(f"{path} cannot be read as a table ({str(error).splitlines()[0]}).") from error
    except OSError as error:
        reason = error.strerror or str(error).splitlines()[0]
        raise StorageError(f"{path} cannot be read: {reason}; give the path of a table.") from error


def _whole(frame: Any) -> Any:
    """Columns of whole numbers with gaps as nullable integers: a gap would make floats of them."""
    for name in frame.columns:
        column = frame[name]
        if column.dtype.kind != "f" or not column.isna().any():
            continue
        values = column.dropna().to_numpy()
        if len(values) and bool((np.abs(values) < 2**53).all()) and bool((values == np.trunc(values)).all()):
            frame[name] = column.astype("Int64")
    return frame


def table_bytes(frame: Any, path: Path) -> bytes:
    """What a file of the kind that its name asks for holds."""
    kind = _kind(path)
    if path.suffix.lower() != kind:
        raise InputError(f"The output is {path}; give a name that ends in .csv, .tsv or .parquet.")
    buffer = io.BytesIO()
    if kind == ".parquet":
        needed("pyarrow")
        frame.to_parquet(buffer, index=False)
    else:
        frame.to_csv(buffer, index=False, sep="\t" if kind == ".tsv" else ",", encoding="utf-8")
    return buffer.getvalue()


def check_table_name(path: Path) -> None:
    """Refuse the name of an output that no table can be written to, before any work."""
    if path.suffix.lower() not in _SUFFIXES:
        raise InputError(f"The output is {path}; give a name that ends in .csv, .tsv or .parquet.")


def _kind(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in (".gz", ".xz", ".bz2"):
        suffixes.pop()
    if not suffixes or suffixes[-1] not in _SUFFIXES:
        raise InputError(f"{path} is of an unknown kind; give a file that ends in .csv, .tsv or .parquet.")
    return suffixes[-1]
