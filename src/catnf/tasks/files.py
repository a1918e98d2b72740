"""Where data sets live."""

from __future__ import annotations

import lzma
import os
import sys
import zipfile
import zlib
from pathlib import Path

from catnf.errors import StorageError

UNREADABLE = (
    *(OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, NotImplementedError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError),
)
"""What numpy raises for files of arrays that are damaged or something else."""

VARIABLE = "CATNF_DATA"
"""Environment variable that names the folder of data sets, or several, separated as in `PATH`."""


def data_folders() -> list[Path]:
    """Folders that data sets are looked for in, first come first served."""
    named = os.environ.get(VARIABLE, "").split(os.pathsep)
    return [*(Path(folder) for folder in named if folder), cache_folder()]


def cache_folder() -> Path:
    """Where data sets are written that catnf makes or downloads: the user's cache."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "catnf"


def need_data(relative: str, command: str) -> Path:
    """As `find_data`, or `StorageError` with the `command` that makes it."""
    found = find_data(relative)
    if found is None:
        places = " or ".join(map(str, data_folders()))
        raise StorageError(f"There is no data set {relative} in {places}; make it with {command}.")
    return found


def find_data(relative: str) -> Path | None:
    """The file or folder `relative` of the first data folder that has it."""
    return next((path for folder in data_folders() if (path := folder / relative).exists()), None)
