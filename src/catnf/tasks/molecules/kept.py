"""What takes long to make of a file of molecules: kept beside it, and made once.

RDKit reads some thousands of molecules a second, and networks look at some hundreds. Where nothing can be
written beside the file, the user's cache is the place.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catnf.errors import StorageError
from catnf.storage import write_bytes
from catnf.tasks.files import UNREADABLE, cache_folder

Arrays = Mapping[str, NDArray[Any]]


def kept(path: Path, name: str, key: list[str], make: Callable[[], Arrays]) -> Arrays:
    """Arrays by name, from the file where they were kept, or else made and kept there.

    Args:
        path: the file of molecules; what is kept lies in `<stem>.<name>.npz`.
        name: of what is kept.
        key: all that the arrays depend on; what was kept under another key is made again.
        make: makes them.
    """
    text = json.dumps(key)
    file = f"{path.stem}.{name}.npz"
    places = [path.with_name(file), cache_folder() / "molecules" / file]
    for place in places:
        found = _stored(place, text)
        if found is not None:
            return found
    arrays = make()
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, key=_bytes(text), **arrays)
    for place in places:  # where none allows it, they are made again the next time
        with suppress(StorageError):
            write_bytes(place, stream.getvalue())
            break
    return arrays


def package_version(name: str) -> str:
    """The version of an installed package: another one may read or write molecules otherwise."""
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"{name} unknown"


def pack_counts(counts: Mapping[str, Any]) -> NDArray[np.uint8]:
    """Counts by name, maybe nested, as an array of bytes."""
    return _bytes(json.dumps(counts))


def unpack_counts(array: NDArray[np.uint8]) -> dict[str, Any]:
    """The counts that `pack_counts` packed."""
    return dict(json.loads(array.tobytes()))


def _bytes(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode(), dtype=np.uint8)


def _stored(place: Path, key: str) -> Arrays | None:
    try:
        with np.load(place, allow_pickle=False) as stored:
            if stored["key"].tobytes().decode() != key:
                return None
            return {name: stored[name] for name in stored.files if name != "key"}
    except UNREADABLE:
        return None
