"""A prepared text as a compact file that can travel: codes of one or two bytes, compressed."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from catnf.errors import StorageError
from catnf.storage import write_bytes
from catnf.tasks.files import UNREADABLE
from catnf.tasks.text.vocabulary import Codes, Vocabulary

FORMAT_VERSION = 1

_AT_ONCE = 1 << 22  # codes that are counted at once: numpy makes eight bytes of each


@dataclass(frozen=True)
class TextPart:
    """A split of a text.

    Attributes:
        codes: of all its symbols, `[symbols]`.
        lengths: of its sentences, `[sentences]`, which follow each other in `codes`; `None` for running text.
    """

    codes: Codes
    lengths: NDArray[np.int16] | None = None

    def counts(self, categories: int) -> NDArray[np.int64]:
        """How often every symbol occurs, `[categories]`."""
        total = np.zeros(categories, dtype=np.int64)
        for start in range(0, len(self.codes), _AT_ONCE):
            total += np.bincount(self.codes[start : start + _AT_ONCE], minlength=categories)
        return total


@dataclass(frozen=True)
class TextData:
    """A text, ready to learn from.

    Attributes:
        vocabulary: its symbols.
        splits: `train`, `validation` and `test`, or those that were asked for.
        counts: how often every symbol occurs in training text, `[categories]`.
        vectors: of the words, `[categories, width]`, zero where a word has none; `None` for characters.
        about: where it comes from, by which rules, as JSON.
    """

    vocabulary: Vocabulary
    splits: Mapping[str, TextPart]
    counts: NDArray[np.int64]
    vectors: NDArray[np.float16] | None = None
    about: Mapping[str, object] = field(default_factory=dict)

    def fingerprint(self) -> str:
        """SHA-256 of vocabulary and texts, whatever the compression of their file."""
        digest = hashlib.sha256(json.dumps([self.vocabulary.unknown, *self.vocabulary.symbols]).encode())
        for name in sorted(self.splits):
            part = self.splits[name]
            digest.update(f"{name} {len(part.codes)} ".encode())
            digest.update(part.codes.tobytes())
            digest.update(b"" if part.lengths is None else part.lengths.tobytes())
        return digest.hexdigest()

    def save(self, path: Path) -> None:
        """Write a `.npz` file, all or nothing."""
        words = self.vocabulary
        header: dict[str, object] = {"format": FORMAT_VERSION, "level": words.level, "unknown": words.unknown}
        header |= {"symbols": list(words.symbols), "about": dict(self.about)}
        arrays: dict[str, NDArray[np.generic]] = {
            "header": np.frombuffer(json.dumps(header).encode(), dtype=np.uint8),
            "counts": self.counts,
        }
        if self.vectors is not None:
            arrays["vectors"] = self.vectors
        for name, part in self.splits.items():
            arrays[f"{name}/codes"] = part.codes
            if part.lengths is not None:
                arrays[f"{name}/lengths"] = part.lengths
        stream = io.BytesIO()
        # Block sorting suits text far better than what numpy would choose: text8 takes 26 MB and not 33.
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_BZIP2) as archive:
            for name, array in arrays.items():
                content = io.BytesIO()
                np.lib.format.write_array(content, np.ascontiguousarray(array), allow_pickle=False)
                archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getvalue(), zipfile.ZIP_BZIP2)
        write_bytes(path, stream.getvalue())

    @classmethod
    def load(cls, path: Path, names: Collection[str] = ("train", "validation", "test")) -> TextData:
        """Read what `save` wrote, of the splits only the named ones."""
        try:
            with np.load(path, allow_pickle=False) as stored:
                header = json.loads(stored["header"].tobytes())
                if header["format"] > FORMAT_VERSION:
                    raise StorageError(f"{path} was written by a newer catnf; upgrade catnf to read it.")
                vocabulary = Vocabulary(header["level"], tuple(header["symbols"]), int(header["unknown"]))
                splits = {}
                for name in names:
                    key = f"{name}/lengths"
                    lengths = stored[key] if key in stored.files else None
                    splits[name] = TextPart(stored[f"{name}/codes"], lengths)
                vectors = stored["vectors"] if "vectors" in stored.files else None
                data = cls(vocabulary, splits, stored["counts"], vectors, header["about"])
        except UNREADABLE as error:
            if isinstance(error, StorageError):
                raise
            raise StorageError(f"{path} cannot be read as text; make it with catnf data text.") from error
        for part in splits.values():
            whole = part.lengths is None or int(part.lengths.sum(dtype=np.int64)) == len(part.codes)
            if not whole or int(part.codes.max(initial=0)) >= len(vocabulary):
                raise StorageError(f"{path} is damaged: its codes do not fit its vocabulary; make it again.")
        return data
