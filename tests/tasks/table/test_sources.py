"""The published credit data: downloaded from a server of our own, checked, and put into words."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch

from catnf.errors import StorageError
from catnf.tasks.download import PublicFile
from catnf.tasks.files import find_data
from catnf.tasks.table.credit import COLUMNS, read_credit
from catnf.tasks.table.sources import ATTRIBUTES, FILE, PUBLISHED, in_words, prepare_credit


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def in_codes(lines: list[list[str]]) -> str:
    """Rows of words as the donor wrote them."""
    out = []
    for cells in lines:
        codes = []
        for place, (cell, (name, values)) in enumerate(zip(cells, ATTRIBUTES.items(), strict=True), 1):
            first = 0 if name in ("credit_history", "purpose") else 1
            prefix = "" if name == "class" else f"A{place}"
            codes.append(f"{prefix}{values.index(cell) + first}" if values else cell)
        out.append(" ".join(codes) + "\n")
    return "".join(out)


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PublicFile]:
    """A file like the published one, with every value of every attribute, on a server."""
    folder = tmp_path / "server"
    folder.mkdir()
    lines = [
        [values[row % len(values)] if values else str(row) for values in ATTRIBUTES.values()]
        for row in range(1000)
    ]
    content = in_codes(lines)
    (folder / "german.data").write_text(content)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("CATNF_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    checksum = hashlib.sha256(content.encode()).hexdigest()
    yield PublicFile(PUBLISHED.name, f"http://127.0.0.1:{server.server_port}/german.data", checksum)
    server.shutdown()
    server.server_close()


def test_downloaded_and_put_into_words(published: PublicFile, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    path = prepare_credit(lambda *state: told.append(state), published)
    assert path == tmp_path / "cache" / "catnf" / FILE
    assert told[-1][1] == told[-1][2] > 0
    x = read_credit(path)
    for column, (name, labels) in enumerate(COLUMNS.items()):
        words = [ATTRIBUTES[name][row % len(labels)] for row in range(1000)]
        assert [labels[code] for code in x[:, column].tolist()] == words
    told.clear()
    assert prepare_credit(lambda *state: told.append(state), published) == path
    assert told == [], "what is there is not downloaded again"


def test_another_file_is_refused(published: PublicFile, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="came with another checksum"):
        prepare_credit(source=PublicFile(published.name, published.address, "0" * 64))
    assert find_data(FILE) is None
    for content in ("A11 6\n", "A99 " * 21, "é"):
        (tmp_path / "bad.data").write_text(content)
        with pytest.raises(StorageError, match="is damaged"):
            in_words(tmp_path / "bad.data")


def test_offline_is_one_sentence(
    run_catnf: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CATNF_DATA", str(tmp_path))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    done = run_catnf("data", "table", "credit")
    assert done.code == 2
    assert PUBLISHED.address in done.err
    assert "Traceback" not in done.err


@pytest.mark.skipif(find_data(FILE) is None, reason="the credit data are not in CATNF_DATA")
def test_the_real_file_comes_out_as_openml_has_it(tmp_path: Path) -> None:
    real = find_data(FILE)
    assert real is not None
    lines = [line.split(",") for line in real.read_text().splitlines()[1:]]
    (tmp_path / "german.data").write_text(in_codes(lines))
    assert hashlib.sha256((tmp_path / "german.data").read_bytes()).hexdigest() == PUBLISHED.sha256
    assert in_words(tmp_path / "german.data") == real.read_text()
    assert torch.equal(read_credit(real)[0], torch.tensor([1, 4, 0, 4, 1, 2, 1, 0, 0]))
