"""Files from public addresses: checked, and taken up again where they were interrupted."""

from __future__ import annotations

import hashlib
import os
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import BinaryIO
from urllib.error import HTTPError, URLError

from catnf.errors import StorageError
from catnf.storage import make_folder
from catnf.tasks.files import data_folders, find_data

Progress = Callable[[str, int, int], None]
"""Is told the name of a file, how many of its bytes have come, and how many it has (0 where unknown)."""

_AT_ONCE = 1 << 18  # bytes that are asked for and hashed at a time
_SECONDS = 30.0  # without any byte, after which a connection counts as lost


@dataclass(frozen=True)
class PublicFile:
    """A file that anyone can download.

    Attributes:
        name: its path in a data folder.
        address: where it is published.
        sha256: its checksum.
    """

    name: str
    address: str
    sha256: str


def fetch(file: PublicFile, progress: Progress = lambda name, done, total: None) -> Path:
    """The path of a public file in a data folder; where none has it, it is downloaded into the first."""
    found = find_data(file.name)
    if found is not None:
        return found
    target = data_folders()[0] / file.name
    download(file.address, target, file.sha256, progress)
    return target


def download(
    address: str, target: Path, sha256: str, progress: Progress = lambda name, done, total: None
) -> None:
    """Download a file, check it, and only then give it its name.

    What has come is kept in `target` with `.part` appended when the connection is lost; the next call goes on
    from there where the server allows it.
    """
    make_folder(target.parent)
    part = target.with_name(f"{target.name}.part")
    advice = f"try again, or get it from {address} yourself and put it into {target.parent} as {target.name}"
    resumed = part.exists()
    try:
        found = _receive(address, part, target.name, progress)
        if found != sha256 and resumed:  # the beginning may be of another version
            part.unlink()
            found = _receive(address, part, target.name, progress)
    except (HTTPException, HTTPError, URLError, TimeoutError, ConnectionError) as error:
        with suppress(OSError):
            if not part.stat().st_size:
                part.unlink()
        reason = getattr(error, "reason", None) or error
        raise StorageError(f"{target.name} cannot be downloaded ({reason}); {advice}.") from error
    except OSError as error:
        raise StorageError(
            f"{part} cannot be written: {error.strerror or error}; free some space or choose another folder."
        ) from error
    if found != sha256:
        with suppress(OSError):
            part.unlink()
        raise StorageError(f"{target.name} came with another checksum ({found[:12]}...); {advice}.")
    os.replace(part, target)


def _receive(address: str, part: Path, name: str, progress: Progress) -> str:
    """Append to `part` what it lacks and return the checksum of the whole."""
    digest = hashlib.sha256()
    with part.open("ab") as file:
        have = file.tell()
        request = urllib.request.Request(address, headers={"User-Agent": "catnf"})
        if have:
            request.add_header("Range", f"bytes={have}-")
        try:
            response = urllib.request.urlopen(request, timeout=_SECONDS)
        except HTTPError as error:
            if error.code != 416 or not have:
                raise
            # Nothing lies behind what is there: it is whole, or of another file.
            return checksum(part)
        with response:
            if response.status == 206:
                digest.update(part.read_bytes())
            else:  # the server sends all of it whatever was asked for
                file.truncate(have := 0)
            length = response.headers.get("Content-Length")
            total = have + int(length) if length else 0
            done = _copy(response, file, digest.update, lambda done: progress(name, have + done, total))
    if have + done < total:
        raise ConnectionError(f"the connection ended after {have + done} of {total} bytes")
    return digest.hexdigest()


def _copy(
    response: HTTPResponse,
    file: BinaryIO,
    update: Callable[[bytes], None],
    progress: Callable[[int], None],
) -> int:
    done = 0
    while block := response.read(_AT_ONCE):
        file.write(block)
        update(block)
        done += len(block)
        progress(done)
    return done


def checksum(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
