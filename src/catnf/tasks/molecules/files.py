"""Reading SMILES from a file."""

from __future__ import annotations

import csv
import gzip
import lzma
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from catnf.errors import InputError, StorageError

COLUMN = "smiles"
_PACKINGS = (".gz", ".xz")
_TABLES = {".csv": ",", ".tsv": "\t"}
_KINDS = ".smi, .smiles, .txt, .csv or .tsv, also with .gz or .xz after it"


class Rows(NamedTuple):
    """SMILES with where they stand.

    Attributes:
        file: name of the file.
        lines: their line numbers, from 1, `[rows]`.
        smiles: as written, unread.
    """

    file: str
    lines: NDArray[np.int64]
    smiles: list[str]

    def take(self, indices: NDArray[np.int64]) -> Rows:
        """The rows of the given places, in their order."""
        return Rows(self.file, self.lines[indices], [self.smiles[index] for index in indices.tolist()])


def read_smiles_file(path: Path, column: str | None = None) -> Rows:
    """The SMILES of a file: a table with a header, or one SMILES in a line.

    In a line, what comes after the first blank is a name and is ignored; a first line `smiles` is a header.

    Args:
        path: a name that ends in `.smi`, `.smiles`, `.txt`, `.csv` or `.tsv`, maybe with `.gz` or `.xz` after
            it.
        column: of a table, by default the one called `smiles` in small or capital letters.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packing = suffixes.pop() if suffixes and suffixes[-1] in _PACKINGS else ""
    kind = suffixes[-1] if suffixes else ""
    if kind not in (".smi", ".smiles", ".txt", *_TABLES):
        raise InputError(f"{path} is of an unknown kind; give a file whose name ends in {_KINDS}.")
    if column is not None and kind not in _TABLES:
        raise InputError(f"{path} has no columns, so none is called {column!r}; leave the column out.")
    try:
        with _opened(path, packing) as file:
            found = list(_from_table(file, path, column, _TABLES[kind]) if kind in _TABLES else _plain(file))
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text; save it as such or give another file.") from error
    except csv.Error as error:
        raise InputError(f"{path} is not a table with one molecule in a row: {error}.") from error
    except (gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError) as error:
        raise StorageError(f"{path} is damaged or not a {packing} file; get it again.") from error
    except OSError as error:
        raise StorageError(
            f"{path} cannot be read: {error.strerror or error}; give the path of a file of SMILES."
        ) from error
    if not any(text for _, text in found):
        raise InputError(f"{path} has no molecules; write one SMILES in a line.")
    lines = np.array([number for number, _ in found], dtype=np.int64)
    return Rows(path.name, lines, [text for _, text in found])


def _opened(path: Path, packing: str) -> TextIO:
    if packing == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    if packing == ".xz":
        return lzma.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _plain(file: Iterable[str]) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(file, 1):
        words = line.split(maxsplit=1)
        text = words[0] if words else ""
        if number > 1 or text.lower() != COLUMN:
            yield number, text


def _from_table(file: TextIO, path: Path, column: str | None, delimiter: str) -> Iterator[tuple[int, str]]:
    reader = csv.reader(file, delimiter=delimiter)
    header = [name.strip() for name in next(reader, [])]
    wanted = [name for name in header if (name.lower() == COLUMN if column is None else name == column)]
    if not header:
        return
    if not wanted:
        named = f"no column {column!r}" if column is not None else "no column smiles"
        names = ", ".join(header[:8])[:200]
        raise InputError(f"{path} has {named} but {names}; name one of these with --column.")
    place = header.index(wanted[0])
    number = reader.line_num + 1
    for row in reader:
        if row:  # a blank line is no row of a table
            yield number, row[place].strip() if place < len(row) else ""
        number = reader.line_num + 1  # a row may take several lines
