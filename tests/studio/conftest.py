"""What tests of the studio share: the real thing, with short limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from catnf.studio.limits import Limits

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

    from catnf.studio.app import Studio

ADDRESS = "http://127.0.0.1:8642"
MakeClient = Callable[..., "TestClient"]


@pytest.fixture(scope="session")
def make_client() -> Iterator[MakeClient]:
    """Makes a studio and what asks it."""
    from fastapi.testclient import TestClient

    from catnf.studio.app import Studio, make_app

    made: list[Studio] = []

    def make(text: Any = None, limits: Limits | None = None) -> TestClient:
        studio = Studio(text, limits=limits or Limits(seconds=3))
        made.append(studio)
        return TestClient(make_app(studio), base_url=ADDRESS)

    yield make
    for studio in made:
        studio.desk.close()


@pytest.fixture(scope="session")
def client(make_client: MakeClient) -> TestClient:
    """Asks a studio with bundled models."""
    return make_client()


@pytest.fixture
def text_run(run_catnf: Callable[..., Any], tmp_path: Path) -> Path:
    """The folder of a tiny model of texts."""
    (tmp_path / "story.txt").write_text("the cat sat on the mat; the dog ran away.\n" * 60)
    sizes = ("task.window=16", "model.hidden=16", "model.blocks=1", "model.width=8")
    short = ("training.steps=3", "training.batch=4", "training.warmup=2")
    changes = [part for value in (*sizes, *short) for part in ("--set", value)]
    trained = ("train", "text/text8/lstm", "--text", "story.txt", "-o", "run", "--device", "cpu", "--quiet")
    outcome = run_catnf(*trained, *changes)
    assert outcome.code == 0, outcome.err
    return tmp_path / "run"
