"""Where SMILES come from, and which of them train, validate and test."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from catnf.errors import InputError, StorageError
from catnf.tasks.download import Progress, PublicFile, fetch
from catnf.tasks.files import find_data, need_data
from catnf.tasks.molecules.files import Rows, read_smiles_file

NAMES = ("zinc250k", "moses")
"""Data sets that catnf knows by name."""

FINGERPRINTS = {
    ("zinc250k", "neutral"): "022477aeec4ce4a745ec3e7de6864b17ad8b3adb55662f8c13ead8bdf143c2d1",
    ("zinc250k", "charged"): "f341f26ec1985e39def39682327012108357bfc1195fc98e7be4e60819b1e578",
    ("moses", "neutral"): "375dddf47ceb989226b40bc018bb819deba46651fcb0db7f5f2567a21ed15518",
}
"""Of the prepared data sets, by name and vocabulary, so that everyone trains on the same molecules."""

RDKIT = "2026.9"
"""The version of RDKit that they were read with; others may choose other Kekulé structures."""

Shares = tuple[float, float, float]
SHARES: Shares = (0.8, 0.1, 0.1)
"""Parts of a user's file that train, validate and test."""
_RULE = "distinct SMILES in the order of their SHA-256: shares {} train, validate and test"

_ZINC_VALIDATION = 8192  # of the held-out rows, the first
_MOSES_VALIDATION = 10_000


@dataclass(frozen=True)
class Source:
    """SMILES by the names of their splits.

    Attributes:
        name: of the data set, or of the user's file.
        rule: how it is split, in words.
        splits: `train`, `validation`, `test` and maybe more.
    """

    name: str
    rule: str
    splits: Mapping[str, Rows]

    def __len__(self) -> int:
        return sum(len(rows.smiles) for rows in self.splits.values())

    def digest(self) -> str:
        """SHA-256 of all splits: tells whether something prepared from them is up to date."""
        whole = hashlib.sha256()
        for name, rows in self.splits.items():
            whole.update(f"{name} {len(rows.smiles)} {lines_digest(rows.smiles)} ".encode())
        return whole.hexdigest()


@dataclass(frozen=True)
class KnownLines:
    """SMILES of a published file.

    Attributes:
        compact: name in a data folder of a file that holds the SMILES alone; taken where it is there.
        public: the published table.
        sha256: of the SMILES, each with a newline after it, whichever file they come from.
    """

    compact: str
    public: PublicFile
    sha256: str

    def read(self, progress: Progress) -> Rows:
        """The SMILES, in their published order."""
        path = find_data(self.compact) or fetch(self.public, progress)
        rows = read_smiles_file(path)
        if lines_digest(rows.smiles) != self.sha256:
            raise StorageError(f"{path} holds other molecules than the published ones; remove it.")
        return rows


_CHEMICAL_VAE = "https://raw.githubusercontent.com/aspuru-guzik-group/chemical_vae/master/models"
_MOFLOW = "https://raw.githubusercontent.com/calvin-zcx/moflow/master/data"
_MOSES = "https://media.githubusercontent.com/media/molecularsets/moses/master/data"

ZINC250K = KnownLines(
    "zinc250k/zinc250k.smi.xz",
    PublicFile(
        "zinc250k/250k_rndm_zinc_drugs_clean_3.csv",
        f"{_CHEMICAL_VAE}/zinc_properties/250k_rndm_zinc_drugs_clean_3.csv",
        "35e3f1a52b1badc0697e373d73a18ad773f415936ff992f4c6baa2e067b3e6ae",
    ),
    "df0aa677c770f15c9943684d6600cba8e7076c67be6a090c12f24da3aaa55b70",
)
ZINC250K_HELD_OUT = PublicFile(
    "zinc250k/valid_idx_zinc.json",
    f"{_MOFLOW}/valid_idx_zinc.json",
    "5ea3d2e4248a592c4f019a337efe3863687c78f359a461d47fb2d9a25c3629ec",
)
MOSES = {
    "train": KnownLines(
        "moses/moses_train.smi.xz",
        PublicFile(
            "moses/train.csv",
            f"{_MOSES}/train.csv",
            "49fe1aae29604ec0f5023ea34edc8789415f954138f2903dabd005a4b888a961",
        ),
        "4301e7f6118839465012eb93510328681ef4b7b24642e8748c4ad40971f4a304",
    ),
    "test": KnownLines(
        "moses/moses_test.smi.xz",
        PublicFile(
            "moses/test.csv",
            f"{_MOSES}/test.csv",
            "257165e8f1e1be2d5712db51c93d2b1544564b782dc303d7d19c887c21a858e6",
        ),
        "d6290e7bc2f0881a8f50ffd53937d2207657de32fcc43786125eb6f73997c1e2",
    ),
    "test_scaffolds": KnownLines(
        "moses/moses_test_scaffolds.smi.xz",
        PublicFile(
            "moses/test_scaffolds.csv",
            f"{_MOSES}/test_scaffolds.csv",
            "8bc942dd807147e07b506151fe8675f58780ed8e494801b705c4bdadb3df3440",
        ),
        "c7287a76a5c72e52234633bd96e1eebbd39a936f3fa98dd6236472c1fa7f9573",
    ),
}


def open_source(
    name: str,
    column: str | None = None,
    shares: Shares | None = None,
    progress: Progress = lambda name, done, total: None,
) -> Source:
    """SMILES of a data set, downloaded where no data folder has them, or of a user's file.

    Args:
        name: one of `NAMES`, or the path of a file.
        column: of a user's table.
        shares: of a user's file that train, validate and test, `SHARES` by default.
        progress: told about downloads.
    """
    if name not in NAMES:
        return from_file(Path(name), column, SHARES if shares is None else shares)
    if column is not None or shares is not None:
        raise InputError(f"{name} has its own column and splits; give them for a file of your own only.")
    return zinc250k(progress) if name == "zinc250k" else moses(progress)


def zinc250k(progress: Progress = lambda name, done, total: None) -> Source:
    """Zinc250k with the held-out rows that are usual for it; the paper validates on the first of them."""
    rows = ZINC250K.read(progress)
    path = fetch(ZINC250K_HELD_OUT, progress)
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != ZINC250K_HELD_OUT.sha256:
        raise StorageError(f"{path} is not the published list of held-out rows; remove it.")
    held_out = np.array(json.loads(content), dtype=np.int64)
    train = np.setdiff1d(np.arange(len(rows.smiles)), held_out)
    rule = f"of the rows in {path.name} the first {_ZINC_VALIDATION} validate, the others test"
    parts = {
        "train": train,
        "validation": held_out[:_ZINC_VALIDATION],
        "test": held_out[_ZINC_VALIDATION:],
    }
    return Source("zinc250k", rule, {name: rows.take(part) for name, part in parts.items()})


def moses(progress: Progress = lambda name, done, total: None) -> Source:
    """MOSES, which has no validation split: one is taken from its training molecules."""
    files = {name: known.read(progress) for name, known in MOSES.items()}
    # Not the last rows: the file is ordered, and those at its end are smaller than the others.
    order = _by_hash(files["train"].smiles)
    rule = f"the {_MOSES_VALIDATION} molecules of train whose SHA-256 are smallest validate"
    splits = {
        "train": files["train"].take(np.sort(order[_MOSES_VALIDATION:])),
        "validation": files["train"].take(np.sort(order[:_MOSES_VALIDATION])),
        "test": files["test"],
        "test_scaffolds": files["test_scaffolds"],
    }
    return Source("moses", rule, splits)


def from_file(path: Path, column: str | None = None, shares: Shares = SHARES) -> Source:
    """A user's file, split by hashes: the order of lines does not matter, and equal ones stay together."""
    total = sum(shares)
    if min(shares) < 0 or not 0 < total < np.inf:
        raise InputError(f"shares are {shares}; give three numbers, 0 or more, such as 0.8 0.1 0.1.")
    rows = read_smiles_file(path, column)
    distinct = list(dict.fromkeys(rows.smiles))
    place = {distinct[index]: number for number, index in enumerate(_by_hash(distinct).tolist())}
    cuts = np.rint(np.cumsum(shares)[:2] / total * len(distinct))
    split = np.searchsorted(cuts, [place[text] for text in rows.smiles], side="right")
    percent = ", ".join(f"{share / total:.4g}" for share in shares)
    rule = _RULE.format(percent)
    names = ("train", "validation", "test")
    return Source(
        path.name,
        rule,
        {name: rows.take(np.flatnonzero(split == number)) for number, name in enumerate(names)},
    )


def shares_of(rule: str) -> Shares | None:
    """The shares in the rule by which a user's file was split; `None` where it is another rule.

    >>> shares_of(_RULE.format("0.9, 0.05, 0.05"))
    (0.9, 0.05, 0.05)
    """
    start, end = _RULE.split("{}")
    if not (rule.startswith(start) and rule.endswith(end)):
        return None
    train, validation, test = (float(share) for share in rule[len(start) : -len(end)].split(", "))
    return train, validation, test


def relative_path(name: str, vocabulary: str) -> str:
    """Where the prepared molecules of a known data set lie in a data folder."""
    return f"molecules/{name}-{vocabulary}.npz"


def dataset_path(name: str, vocabulary: str) -> Path:
    """The file of prepared molecules, or `StorageError` with the command that makes it."""
    if name not in NAMES:
        return Path(name)
    command = f"catnf data molecules {name} --vocabulary {vocabulary}"
    return need_data(relative_path(name, vocabulary), command)


def lines_digest(lines: list[str]) -> str:
    """SHA-256 of lines, each with a newline after it."""
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def _by_hash(texts: list[str]) -> NDArray[np.int64]:
    """Places of texts in the order of their hashes."""
    hashes = [hashlib.sha256(text.encode()).digest() for text in texts]
    return np.array(sorted(range(len(texts)), key=hashes.__getitem__), dtype=np.int64)
