"""Prepared texts: files, splits, downloads, and the corpora of the paper where they are at hand."""

from __future__ import annotations

import hashlib
import lzma
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from catnf.errors import InputError, StorageError
from catnf.tasks.download import PublicFile
from catnf.tasks.text import sources
from catnf.tasks.text.archive import TextData
from catnf.tasks.text.preparation import VECTORS, prepare, word_vectors
from catnf.tasks.text.sources import (
    FILES,
    FINGERPRINTS,
    Known,
    dataset_path,
    prepared_beside,
    read_text_file,
)
from catnf.tasks.text.vocabulary import PTB, TEXT8, Vocabulary

SHARED = Path(__file__).parents[4] / "shared" / "data"
needs_data = pytest.mark.skipif(not SHARED.exists(), reason="needs the corpora in ../shared/data")


def test_a_text_of_ones_own(story_file: Path, story: str, tmp_path: Path) -> None:
    path = tmp_path / "out.npz"
    summary = prepare(str(story_file), path)
    data = TextData.load(path)
    whole = np.concatenate([data.splits[name].codes for name in ("train", "validation", "test")])
    assert data.vocabulary.decode(whole.tolist()) == story
    first = story.replace("\n", " ").index(" ", int(0.9 * len(story)))  # words are not cut
    assert summary.symbols["train"] == first
    assert int(data.counts.sum()) == summary.symbols["train"]
    assert summary.fingerprint == data.fingerprint()
    assert TextData.load(path, ["test"]).splits.keys() == {"test"}


def test_words_of_ones_own(story_file: Path, tmp_path: Path) -> None:
    summary = prepare(str(story_file), tmp_path / "out.npz", "words", 8)
    assert summary.categories == 8
    assert sum(summary.unknown["train"].values()) > 0
    data = TextData.load(tmp_path / "out.npz")
    assert data.vocabulary.symbols[0] == "<unk>"
    assert data.counts[0] == sum(summary.unknown["train"].values())


def test_characters_that_training_text_lacks(tmp_path: Path) -> None:
    file = tmp_path / "late.txt"
    file.write_text("ab" * 500 + "é€" * 20, encoding="utf-8")
    summary = prepare(str(file), tmp_path / "out.npz")
    assert summary.unknown["train"] == {}
    assert summary.unknown["test"] == {"é": 20, "€": 20}


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\xff\xfe\x00", "is not UTF-8 text; save it as such"), (b"short", "has 5 characters; give a longer")],
)
def test_texts_that_cannot_be_used(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "bad.txt").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_text_file(tmp_path / "bad.txt")
    with pytest.raises(StorageError, match="cannot be read"):
        read_text_file(tmp_path / "missing.txt")


def test_options_that_mean_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="text8 has 27 symbols; leave the size out"):
        prepare("text8", tmp_path / "out.npz", size=30)
    with pytest.raises(InputError, match="ptb is learned by characters, not by words"):
        prepare("ptb", tmp_path / "out.npz", "words")


def test_damaged_files(prepared: Path, tmp_path: Path) -> None:
    content = prepared.read_bytes()
    (tmp_path / "cut.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(StorageError, match="cannot be read as text; make it with catnf data text"):
        TextData.load(tmp_path / "cut.npz")
    data = TextData.load(prepared)
    wrong = TextData(Vocabulary("characters", ("a", "b"), 0), data.splits, data.counts)
    wrong.save(tmp_path / "wrong.npz")
    with pytest.raises(StorageError, match="do not fit its vocabulary"):
        TextData.load(tmp_path / "wrong.npz")


def test_missing_data_name_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CATNF_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(StorageError, match="make it with catnf data text text8"):
        dataset_path("text8", "characters")
    with pytest.raises(StorageError, match=r"catnf data text mine\.txt --level words"):
        dataset_path("mine.txt", "words")
    with pytest.raises(StorageError, match=r"catnf data text FILE --level words -o mine\.npz"):
        dataset_path("mine.npz", "words")


def test_texts_of_similar_names_are_prepared_apart() -> None:
    names = ["notes.txt", "notes.md", "notes", "notes.2023.txt", "notes.2024.txt"]
    assert len({prepared_beside(Path(name), "words") for name in names}) == len(names)


def test_published_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A split of a zip, checked by its own digest; a compressed copy is taken where it is there."""
    monkeypatch.setenv("CATNF_DATA", str(tmp_path))
    with zipfile.ZipFile(tmp_path / "some.zip", "w") as archive:
        archive.writestr("text", "abcdefghij")
    public = PublicFile("some.zip", "http://nowhere.invalid/some.zip", "0")
    digest = hashlib.sha256(b"cdef").hexdigest()
    known = Known("some.xz", public, "text", digest, (2, 6))
    assert known.read(lambda name, done, total: None) == "cdef"
    (tmp_path / "some.xz").write_bytes(lzma.compress(b"cdeX"))
    with pytest.raises(StorageError, match="holds another text than the published one"):
        known.read(lambda name, done, total: None)


def test_addresses() -> None:
    for name, splits in FILES.items():
        assert set(splits) == {"train", "validation", "test"}, name
        for known in splits.values():
            assert known.public.address.startswith("http")
            assert len(known.public.sha256) == 64


def test_word_vectors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CATNF_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    vocabulary = Vocabulary("words", ("<unk>", "cat", "dog"), 0)
    assert word_vectors(vocabulary) is None
    (tmp_path / VECTORS).parent.mkdir()
    vectors = np.arange(100, dtype=np.float16).reshape(2, 50)
    np.savez(tmp_path / VECTORS, words=np.array(["dog", "cow"]), vectors=vectors)
    found = word_vectors(vocabulary)
    assert found is not None
    assert found[2].tolist() == vectors[0].tolist()
    assert not found[:2].any()


@needs_data
def test_the_penn_treebank(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CATNF_DATA", os.pathsep.join([str(tmp_path), str(SHARED)]))
    summary = prepare("ptb", tmp_path / "ptb.npz")
    assert summary.categories == len(PTB) == 51
    assert summary.sentences == {"train": 41_801, "validation": 3360, "test": 3739}
    assert summary.symbols["train"] == 4_751_151
    assert summary.fingerprint == FINGERPRINTS["ptb"]
    assert not any(summary.unknown.values())
    counts = TextData.load(tmp_path / "ptb.npz", names=()).counts
    assert (counts > 0).sum() == 48, "as many symbols are in use"


@needs_data
def test_words_of_wikitext2(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CATNF_DATA", os.pathsep.join([str(tmp_path), str(SHARED)]))
    summary = prepare("wikitext2", tmp_path / "wikitext2.npz")
    assert summary.symbols == {"train": 2_088_628, "validation": 217_646, "test": 245_569}
    counts = TextData.load(tmp_path / "wikitext2.npz", names=()).counts
    assert counts[0] / counts.sum() == pytest.approx(0.080, abs=0.001)
    assert summary.vectors > 9900


@needs_data
def test_a_part_of_text8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATNF_DATA", str(SHARED))
    text = sources.FILES["text8"]["test"].read(lambda name, done, total: None)
    coded = TEXT8.encode(text)
    assert len(coded.codes) == 5_000_000
    assert not coded.unknown
