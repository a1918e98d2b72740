"""Files that last: tensors as safetensors with a JSON header, written all or not at all.

A file is a plain safetensors file whose metadata has two entries: `catnf`, the JSON of the header with the
format version, and, if the tensors are spread over several files, `catnf.shard`, which ties those together.
Nothing is unpickled, so that a file from anywhere is safe to open.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialize
from torch import Tensor

from catnf.errors import InputError, StorageError

FORMAT_VERSION = 1

_SUFFIX = ".safetensors"
_SHARD = re.compile(r"(?P<stem>.+)-(?P<index>\d{5})-of-(?P<count>\d{5})\.safetensors")
_TEMPORARY = ".catnf-tmp-"  # start of the names of files that are being written
_ABANDONED_SECONDS = 3600.0  # a temporary file this old belongs to a writer that was killed

_FIXES = {
    errno.ENOSPC: "free some space or choose another folder",
    errno.EDQUOT: "free some space or choose another folder",
    errno.EFBIG: "raise the limit on file sizes or save in shards",
    errno.EROFS: "choose a folder that can be written to",
    errno.EACCES: "choose a folder that can be written to",
    errno.EPERM: "choose a folder that can be written to",
    errno.ENOTDIR: "a part of its path is a file, so choose another folder",
    errno.EEXIST: "a part of its path is a file, so choose another folder",
}


def save_tensors(
    path: str | Path,
    tensors: Mapping[str, Tensor],
    header: Mapping[str, object],
    shard_bytes: int | None = None,
) -> list[Path]:
    """Write `tensors` and `header` to `path`, or to shards beside it, and return the files written.

    Files are written under temporary names and moved into place when all are complete: whatever fails
    before that, what was at `path` is untouched. Shards are moved one by one; should the writer be killed
    between two of them, `load_tensors` notices instead of mixing old and new.

    Args:
        path: a name ending in `.safetensors`; folders are created as needed.
        tensors: on any device, in any layout; views and shared storage are written out in full.
        header: JSON values; comes back from `load_tensors` as given.
        shard_bytes: start another file, `name-00001-of-00003.safetensors`, where this many bytes of
            tensors would be exceeded; `None` writes one file.
    """
    path = Path(path)
    if path.suffix != _SUFFIX or _SHARD.fullmatch(path.name):
        raise InputError(f"Cannot save tensors as {path.name}; choose a name such as model{_SUFFIX}.")
    if shard_bytes is not None and shard_bytes < 1:
        raise InputError(f"shard_bytes is {shard_bytes}, but at least one byte is needed.")
    text = _encode_header(header)
    groups = _split(tensors, shard_bytes)
    targets = [path] if len(groups) == 1 else _shard_paths(path.parent, path.stem, len(groups))
    save_id = secrets.token_hex(8)

    def contents() -> Iterator[tuple[Path, bytes]]:
        for target, names in zip(targets, groups, strict=True):
            metadata = {"catnf": text}
            if len(targets) > 1:
                metadata["catnf.shard"] = json.dumps({"save": save_id, "count": len(targets)})
            yield target, _serialize({name: tensors[name] for name in names}, metadata)

    _write_all(path, contents())
    _remove_stale(path, keep=targets)
    return targets


def load_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save_tensors` wrote: the tensors, on the CPU, and the header.

    Args:
        path: the name given to `save_tensors`, whether or not it was sharded, or any one of the shards.
    """
    files = _find_files(Path(path))
    tensors: dict[str, Tensor] = {}
    header: dict[str, Any] = {}
    saves = set()
    for file in files:
        part, header, shard = _read(file)
        tensors.update(part)
        saves.add((shard.get("save"), shard.get("count", 1)))
    if {count for _, count in saves} != {len(files)}:
        raise StorageError(
            f"{path} is only a part of sharded weights; keep all shards under their own names."
        )
    if len(saves) > 1:
        raise StorageError(
            f"The shards of {path} come from different saves; write or download all of them again."
        )
    return tensors, header


def peek_header(path: str | Path) -> dict[str, Any]:
    """The header of a file, without its tensors; empty where it is none that catnf wrote."""
    try:
        with safe_open(Path(path), framework="pt", device="cpu") as opened:
            return _decode_metadata(Path(path), opened.metadata() or {})[0]
    except (SafetensorError, OSError):  # whoever reads the file next says what is wrong with it
        return {}


def make_folder(path: str | Path) -> None:
    """Make a folder, and those above it, before the work whose outcome will be written there."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"The folder {path} cannot be made: {error.strerror}; choose another one."
        ) from error


def write_text(path: str | Path, text: str) -> None:
    """Write `text` in UTF-8, all or nothing; folders are created as needed."""
    write_bytes(path, text.encode())


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write `content`, all or nothing; folders are created as needed."""
    path = Path(path)
    _write_all(path, [(path, content)])


def temporary_path(target: Path) -> Path:
    """A new name beside `target`, for a file that is moved there when it is complete."""
    return target.with_name(f"{_TEMPORARY}{secrets.token_hex(4)}-{target.name}")


def check_ordinary(path: Path) -> None:
    """Refuse to write a file where a folder is, or a device, which a file would take the place of."""
    if path.is_dir():
        raise StorageError(f"Cannot write {path}: it is a folder; give the name of a file in it.")
    # What /dev/stdout leads to may be a file.
    if (path.exists() and not path.is_file()) or path.parent.resolve() == Path("/dev"):
        raise StorageError(f"Cannot write {path}: it is no ordinary file; give the name of one.")


def cannot_write(path: Path, error: OSError) -> StorageError:
    """What to tell a user of an error while writing `path`."""
    fix = _FIXES.get(error.errno or 0, "check the path")
    return StorageError(f"Cannot write {path}: {error.strerror or error}; {fix}.")


def _encode_header(header: Mapping[str, object]) -> str:
    if "format" in header:
        raise InputError("The header has a key 'format', which is reserved for the version; rename it.")
    try:
        return json.dumps({"format": FORMAT_VERSION, **header}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"The header cannot be written as JSON: {error}; use plain, finite values."
        ) from error


def _split(tensors: Mapping[str, Tensor], shard_bytes: int | None) -> list[list[str]]:
    """Names of the tensors that go into the same file, in order."""
    groups: list[list[str]] = [[]]
    filled = 0
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        if shard_bytes is not None and groups[-1] and filled + size > shard_bytes:
            groups.append([])
            filled = 0
        groups[-1].append(name)
        filled += size
    return groups


def _shard_paths(folder: Path, stem: str, count: int) -> list[Path]:
    return [folder / f"{stem}-{index:05d}-of-{count:05d}{_SUFFIX}" for index in range(1, count + 1)]


def _serialize(tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> bytes:
    # The format wants every tensor contiguous and alone in its storage, which views are not.
    copies = {
        name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    try:
        return serialize(copies, metadata)
    except (SafetensorError, ValueError, KeyError) as error:
        raise InputError(f"The tensors cannot be stored: {error}.") from error


def _write_all(path: Path, contents: Iterable[tuple[Path, bytes]]) -> None:
    """Write files of the folder of `path` under temporary names, then move all of them into place."""
    check_ordinary(path)
    staged: list[tuple[Path, Path]] = []
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for target, content in contents:
            temporary = temporary_path(target)
            staged.append((temporary, target))
            with open(temporary, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for temporary, target in staged:
            os.replace(temporary, target)
        _sync_folder(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        for temporary, _ in staged:
            with suppress(OSError):
                temporary.unlink()


def _sync_folder(folder: Path) -> None:
    """Make the new names last through a power cut, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _remove_stale(path: Path, keep: Collection[Path]) -> None:
    """Remove files of an earlier save under the same name, and temporary files that killed writers left."""
    for file in _siblings(path):
        shard = _SHARD.fullmatch(file.name)
        outdated = file.name == path.name or (shard is not None and shard["stem"] == path.stem)
        # What cannot be removed does no harm: the newest complete save is the one that is read.
        with suppress(OSError):
            if (outdated and file not in keep) or _is_abandoned(file):
                file.unlink()


def _is_abandoned(file: Path) -> bool:
    return file.name.startswith(_TEMPORARY) and time.time() - file.stat().st_mtime > _ABANDONED_SECONDS


def _siblings(path: Path) -> list[Path]:
    """Everything in the folder of `path`; nothing where there is no such folder."""
    with suppress(OSError):
        return list(path.parent.iterdir())
    return []


def _find_files(path: Path) -> list[Path]:
    """The file or the shards that make up the newest complete save under the name `path`."""
    shard = _SHARD.fullmatch(path.name)
    if shard:
        saves = [_shard_paths(path.parent, shard["stem"], int(shard["count"]))]
    else:
        matches = (_SHARD.fullmatch(file.name) for file in _siblings(path))
        counts = {int(match["count"]) for match in matches if match and match["stem"] == path.stem}
        saves = [[path]] + [_shard_paths(path.parent, path.stem, count) for count in sorted(counts)]
    complete = [files for files in saves if files and all(file.is_file() for file in files)]
    if complete:
        return max(complete, key=lambda files: max(file.stat().st_mtime_ns for file in files))
    if path.is_dir():
        raise StorageError(f"{path} is a folder; give the path of a {_SUFFIX} file in it.")
    for files in saves:
        missing = [file.name for file in files if not file.is_file()]
        if len(missing) < len(files):
            raise StorageError(f"{path} lacks its shard {missing[0]}; put it beside the others.")
    raise StorageError(f"There is no file {path}; check the path.")


def _read(file: Path) -> tuple[dict[str, Tensor], dict[str, Any], dict[str, Any]]:
    """Tensors, header and shard entry of one file."""
    try:
        with safe_open(file, framework="pt", device="cpu") as opened:
            metadata = opened.metadata() or {}
            header, shard = _decode_metadata(file, metadata)
            # Cloned, because the file may be replaced while the tensors are in use.
            return {name: opened.get_tensor(name).clone() for name in opened.keys()}, header, shard  # noqa: SIM118
    except SafetensorError as error:
        raise StorageError(
            f"{file} is truncated or corrupt ({error}); restore or download it again."
        ) from error
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(
            f"Cannot read {file}: {error.strerror or error}; check its permissions."
        ) from error


def _decode_metadata(file: Path, metadata: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    if "catnf" not in metadata:
        raise StorageError(f"{file} is a safetensors file of another program; give one that catnf wrote.")
    try:
        header = json.loads(metadata["catnf"])
        shard = json.loads(metadata.get("catnf.shard", "{}"))
        version = header.pop("format")
        newer = version > FORMAT_VERSION
        if not isinstance(shard, dict):
            raise TypeError("shard entry")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StorageError(f"{file} has a damaged header; restore or download it again.") from error
    if newer:
        raise StorageError(
            f"{file} has format {version}, but this catnf reads up to {FORMAT_VERSION}; upgrade catnf."
        )
    return header, shard
