"""Files of tensors: what comes back, what is refused, and what survives a failed write."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from catnf import storage
from catnf.errors import InputError, StorageError
from catnf.storage import FORMAT_VERSION, load_tensors, save_tensors, write_text

HEADER = {"config": {"width": 8, "rates": [0.1, None]}, "name": "sets/shuffling/mixture"}


def make(seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {f"layer{i}.weight": torch.randn(4, 8, generator=generator) for i in range(5)}


def assert_same(a: dict[str, Tensor], b: dict[str, Tensor]) -> None:
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].dtype == b[name].dtype
        assert torch.equal(a[name], b[name]), name


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_round_trip(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = {"matrix": torch.arange(6).view(2, 3).to(dtype), "scalar": torch.ones((), dtype=dtype)}
    path = tmp_path / "new" / "folder" / "model.safetensors"
    assert save_tensors(path, tensors, HEADER) == [path]
    loaded, header = load_tensors(path)
    assert_same(loaded, tensors)
    assert header == HEADER
    assert all(tensor.device.type == "cpu" for tensor in loaded.values())


def test_empty_tensors_and_no_tensors(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    tensors = {"a": torch.zeros(0, 3), "b": torch.zeros(0)}
    save_tensors(path, tensors, {})
    assert_same(load_tensors(path)[0], tensors)
    save_tensors(path, {}, {"only": "header"})
    assert load_tensors(path) == ({}, {"only": "header"})


def test_views_shared_storage_and_parameters(tmp_path: Path) -> None:
    flat = torch.randn(24)
    tensors = {
        "first": flat[:12].view(3, 4),
        "second": flat[12:].view(3, 4),
        "overlap": flat[6:18],
        "transposed": flat[:12].view(3, 4).T,
        "expanded": flat[:1].expand(5, 3),
        "strided": flat[::2],
        "channels_last": torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
        "parameter": torch.nn.Parameter(flat[:4]),
    }
    path = tmp_path / "model.safetensors"
    save_tensors(path, tensors, HEADER)
    loaded, _ = load_tensors(path)
    assert_same(loaded, {name: tensor.detach() for name, tensor in tensors.items()})
    assert path.stat().st_size < 4096  # the views, not the whole buffer for each of them
    loaded["first"].zero_()  # belongs to the caller: neither read-only nor tied to the file
    assert_same(load_tensors(path)[0], {name: tensor.detach() for name, tensor in tensors.items()})


def test_saving_is_deterministic_and_readable_by_others(tmp_path: Path) -> None:
    a, b = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    save_tensors(a, make(), HEADER)
    save_tensors(b, make(), HEADER)
    assert a.read_bytes() == b.read_bytes()
    size = int.from_bytes(a.read_bytes()[:8], "little")
    metadata = json.loads(a.read_bytes()[8 : 8 + size])["__metadata__"]
    assert json.loads(metadata["catnf"]) == {"format": FORMAT_VERSION, **HEADER}
    umask = os.umask(0)
    os.umask(umask)
    assert a.stat().st_mode & 0o777 == 0o666 & ~umask


def test_shards(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    files = save_tensors(path, make(), HEADER, shard_bytes=300)  # two tensors of 128 bytes in each
    expected = [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]
    assert [file.name for file in files] == names(tmp_path) == expected
    for asked in [path, *files]:
        loaded, header = load_tensors(asked)
        assert_same(loaded, make())
        assert header == HEADER
    assert len(save_tensors(path, make(), {}, shard_bytes=1)) == 5  # a larger tensor has one to itself
    assert len(save_tensors(path, make(), {}, shard_bytes=10**6)) == 1


def test_stale_files_go_and_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    others = ["model-b.safetensors", "model.json", "othermodel-00001-of-00002.safetensors", ".catnf-tmp-new"]
    for name in others:
        (tmp_path / name).touch()
    abandoned = tmp_path / ".catnf-tmp-old"
    abandoned.touch()
    os.utime(abandoned, (time.time() - 86400,) * 2)
    for seed, shard_bytes, count in [(0, None, 1), (1, 300, 3), (2, 128, 5), (3, 300, 3), (4, None, 1)]:
        files = save_tensors(path, make(seed), HEADER, shard_bytes)
        assert len(files) == count
        assert names(tmp_path) == sorted([*others, *(file.name for file in files)])
        assert_same(load_tensors(path)[0], make(seed))


def test_a_complete_save_wins_over_an_incomplete_one(tmp_path: Path) -> None:
    """What is left when a writer is killed while moving shards into place."""
    path = tmp_path / "model.safetensors"
    save_tensors(path, make(0), HEADER)
    save_tensors(tmp_path / "new" / path.name, make(1), HEADER, shard_bytes=300)
    shards = sorted((tmp_path / "new").iterdir())
    shards[0].rename(tmp_path / shards[0].name)
    assert_same(load_tensors(path)[0], make(0))
    for shard in shards[1:]:
        shard.rename(tmp_path / shard.name)
    assert_same(load_tensors(path)[0], make(1))


def refuse(path: Path, message: str) -> None:
    with pytest.raises(StorageError) as caught:
        load_tensors(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_files(tmp_path: Path) -> None:
    refuse(tmp_path / "absent.safetensors", "There is no file")
    refuse(tmp_path / "absent" / "absent.safetensors", "check the path")
    refuse(tmp_path, "is a folder; give the path of a .safetensors file in it")
    files = save_tensors(tmp_path / "model.safetensors", make(), HEADER, shard_bytes=300)
    files[1].unlink()
    for asked in (tmp_path / "model.safetensors", *files):
        refuse(asked, "lacks its shard model-00002-of-00003.safetensors; put it beside the others")


def test_mixed_and_renamed_shards(tmp_path: Path) -> None:
    a = save_tensors(tmp_path / "a" / "model.safetensors", make(0), HEADER, shard_bytes=300)
    b = save_tensors(tmp_path / "b" / "model.safetensors", make(1), HEADER, shard_bytes=300)
    b[1].replace(a[1])
    refuse(tmp_path / "a" / "model.safetensors", "come from different saves")
    a[0].rename(tmp_path / "alone.safetensors")
    refuse(tmp_path / "alone.safetensors", "only a part of sharded weights")


def test_truncated_and_alien_files(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_tensors(path, make(), HEADER)
    content = path.read_bytes()
    truncated = [content[:length] for length in (0, 4, 8, 9, 100, len(content) // 2, len(content) - 1)]
    for damaged in [*truncated, b"\x80\x04\x95" * 30, b"\xff" * 64, b"PK\x03\x04" * 20, b"hello, hello"]:
        path.write_bytes(damaged)
        refuse(path, "is truncated or corrupt")


def test_foreign_newer_and_damaged_headers(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    cases: list[tuple[dict[str, str] | None, str]] = [
        (None, "is a safetensors file of another program; give one that catnf wrote"),
        ({"format": "pt"}, "is a safetensors file of another program"),
        ({"catnf": '{"format": 99}'}, "has format 99, but this catnf reads up to 1; upgrade catnf"),
        ({"catnf": "{"}, "has a damaged header"),
        ({"catnf": "[1]"}, "has a damaged header"),
        ({"catnf": "{}"}, "has a damaged header"),
        ({"catnf": '{"format": "1"}'}, "has a damaged header"),
        ({"catnf": '{"format": 1}', "catnf.shard": "3"}, "has a damaged header"),
    ]
    for metadata, message in cases:
        save_file(make(), path, metadata)
        refuse(path, message)


def test_unsuitable_names_headers_and_sizes(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    for name in ["model", "model.pt", "model-00001-of-00002.safetensors"]:
        with pytest.raises(InputError, match=r"choose a name such as model\.safetensors"):
            save_tensors(tmp_path / name, make(), HEADER)
    headers: list[dict[str, object]] = [{"loss": float("nan")}, {"path": path}, {"format": 3}]
    for header in headers:
        with pytest.raises(InputError, match="header"):
            save_tensors(path, make(), header)
    with pytest.raises(InputError, match="shard_bytes is 0"):
        save_tensors(path, make(), HEADER, shard_bytes=0)
    assert names(tmp_path) == []


def test_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "m.safetensors", tmp_path / "file" / "deeper" / "m.safetensors"):
        with pytest.raises(StorageError, match="a part of its path is a file"):
            save_tensors(path, make(), HEADER)
        with pytest.raises(StorageError, match="a part of its path is a file"):
            write_text(path, "x")
    (tmp_path / "folder.safetensors").mkdir()
    with pytest.raises(StorageError, match="it is a folder; give the name of a file in it"):
        save_tensors(tmp_path / "folder.safetensors", make(), HEADER)
    assert names(tmp_path) == ["file", "folder.safetensors"]


FAILURES = [(errno.ENOSPC, "free some space"), (errno.EROFS, "written to"), (errno.EIO, "check the path")]


@pytest.mark.parametrize("shard_bytes", [None, 300])
@pytest.mark.parametrize(("code", "fix"), FAILURES)
def test_a_failing_disk_leaves_the_old_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shard_bytes: int | None, code: int, fix: str
) -> None:
    path = tmp_path / "model.safetensors"
    save_tensors(path, make(0), HEADER, shard_bytes)
    before = names(tmp_path)
    failure = OSError(code, os.strerror(code))
    # With shards, the first is written and the second fails.
    monkeypatch.setattr(
        storage.os, "fsync", Mock(side_effect=[failure] if shard_bytes is None else [None, failure])
    )
    with pytest.raises(StorageError, match=f"{os.strerror(code)}; .*{fix}"):
        save_tensors(path, make(1), HEADER, shard_bytes)
    assert names(tmp_path) == before
    assert_same(load_tensors(path)[0], make(0))


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage.os, "fsync", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        save_tensors(tmp_path / "model.safetensors", make(), HEADER)
    assert names(tmp_path) == []


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


LIMITED = """
import resource, sys, torch
from catnf.errors import StorageError
from catnf.storage import save_tensors
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    save_tensors(sys.argv[1], {"big": torch.zeros(100_000)}, {})
except StorageError as error:
    print(error)
"""


def test_a_limit_on_file_sizes(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_tensors(path, make(), HEADER)
    result = run(LIMITED, path)
    assert result.stdout.startswith(f"Cannot write {path}: File too large; "), result.stderr
    assert names(tmp_path) == [path.name]
    assert_same(load_tensors(path)[0], make())


KILLED = """
import os, signal, sys, torch
from catnf import storage
storage.os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
storage.save_tensors(sys.argv[1], {"big": torch.zeros(100_000)}, {})
"""


def test_a_killed_writer_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_tensors(path, make(), HEADER)
    result = run(KILLED, path)
    assert result.returncode == -9, result.stderr
    assert [name.startswith(".catnf-tmp-") for name in names(tmp_path)] == [True, False]
    assert_same(load_tensors(path)[0], make())


def test_write_text(tmp_path: Path) -> None:
    path = tmp_path / "results" / "a.json"
    write_text(path, '{"name": "größer"}\n')
    assert json.loads(path.read_text(encoding="utf-8")) == {"name": "größer"}
    write_text(str(path), "shorter\n")
    assert path.read_bytes() == b"shorter\n"
    assert names(path.parent) == ["a.json"]
