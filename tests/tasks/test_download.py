"""Downloads from a server of our own."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from catnf.errors import StorageError
from catnf.tasks import download as module
from catnf.tasks.download import PublicFile, download, fetch
from catnf.tasks.files import data_folders, find_data

CONTENT = bytes(range(256)) * 4096
CHECKSUM = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves `CONTENT`, from the byte that is asked for where `ranges`, and hangs up after `limit` bytes."""

    ranges = True
    limit = len(CONTENT)

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str | None] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/file.bin"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append(wanted)
        if not self.path.endswith("file.bin"):
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and self.server.ranges else 0
        if start >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        self.wfile.write(CONTENT[start : start + self.server.limit])

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.shutdown()
    running.server_close()


def test_a_file_comes_whole(server: Server, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    target = tmp_path / "new" / "folder" / "file.bin"
    download(server.address, target, CHECKSUM, lambda *state: told.append(state))
    assert target.read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == ["file.bin"]
    assert told[-1] == ("file.bin", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


def test_what_has_come_is_kept(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "file.bin"
    server.limit = 300_000
    for share in (1, 2, 3):
        with pytest.raises(StorageError, match="the connection ended after") as failed:
            download(server.address, target, CHECKSUM)
        assert server.address in str(failed.value)
        assert str(tmp_path) in str(failed.value)
        assert not target.exists()
        assert (tmp_path / "file.bin.part").stat().st_size == share * 300_000
    download(server.address, target, CHECKSUM)
    assert target.read_bytes() == CONTENT
    assert server.asked == [None, "bytes=300000-", "bytes=600000-", "bytes=900000-"]


def test_servers_that_always_send_everything(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:1000])
    download(server.address, tmp_path / "file.bin", CHECKSUM)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("part", [b"of another file", b"x" * len(CONTENT), b"x" * (len(CONTENT) + 9)])
def test_a_wrong_beginning_is_thrown_away(server: Server, tmp_path: Path, part: bytes) -> None:
    (tmp_path / "file.bin.part").write_bytes(part)
    download(server.address, tmp_path / "file.bin", CHECKSUM)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_a_whole_part_needs_only_its_name(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    download(server.address, tmp_path / "file.bin", CHECKSUM)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT
    assert server.asked == [f"bytes={len(CONTENT)}-"]


def test_wrong_checksums_leave_nothing(server: Server, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="came with another checksum"):
        download(server.address, tmp_path / "file.bin", "0" * 64)
    assert list(tmp_path.iterdir()) == []


def test_offline_is_one_sentence(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = server.address.replace("file.bin", "missing")
    with pytest.raises(StorageError, match=r"Not Found.*try again, or get it from http.* put it into"):
        download(missing, tmp_path / "file.bin", CHECKSUM)
    server.shutdown()
    server.server_close()
    with pytest.raises(StorageError, match=r"refused.*try again, or get it from http.* put it into"):
        download(server.address, tmp_path / "file.bin", CHECKSUM)
    with pytest.raises(StorageError, match="cannot be downloaded"):
        download("http://no-such-host.invalid/file.bin", tmp_path / "file.bin", CHECKSUM)


def test_silence_ends(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SECONDS", 0.3)
    event = threading.Event()
    monkeypatch.setattr(Handler, "do_GET", lambda self: event.wait(10))
    with pytest.raises(StorageError, match="timed out"):
        download(server.address, tmp_path / "file.bin", CHECKSUM)
    event.set()


def test_data_folders_come_before_downloads(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    monkeypatch.setenv("CATNF_DATA", f"{first}:{second}:")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_folders()[:2] == [first, second]
    assert len(data_folders()) == 3
    (second / "set").mkdir(parents=True)
    (second / "set" / "here.bin").write_bytes(b"x")
    assert fetch(PublicFile("set/here.bin", server.address, CHECKSUM)) == second / "set" / "here.bin"
    assert server.asked == []
    assert fetch(PublicFile("set/there.bin", server.address, CHECKSUM)) == first / "set" / "there.bin"
    assert find_data("set/there.bin") == first / "set" / "there.bin"
    assert len(server.asked) == 1
    fetch(PublicFile("set/there.bin", server.address, CHECKSUM))
    assert len(server.asked) == 1
    monkeypatch.setenv("CATNF_DATA", "")
    assert fetch(PublicFile("there.bin", server.address, CHECKSUM)).is_relative_to(tmp_path / "cache")


def test_folders_that_cannot_be_written_to(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be made"):
        download(server.address, tmp_path / "file" / "file.bin", CHECKSUM)
    (tmp_path / "file.bin.part").mkdir()
    with pytest.raises(StorageError, match="cannot be written"):
        download(server.address, tmp_path / "file.bin", CHECKSUM)
