"""What tests of texts share: a small text, prepared."""

from __future__ import annotations

from pathlib import Path

import pytest

from catnf.tasks.text.preparation import prepare

STORY = "the cat sat on a mat and the dog ran to the old house where it slept all day"


@pytest.fixture(scope="session")
def story() -> str:
    """Some four thousand characters in lines."""
    words = STORY.split()
    lines = [" ".join(words[(3 * i + 5 * j) % len(words)] for j in range(8)) for i in range(120)]
    return "\n".join(lines) + "\n"


@pytest.fixture
def story_file(tmp_path: Path, story: str) -> Path:
    path = tmp_path / "story.txt"
    path.write_text(story, encoding="utf-8")
    return path


@pytest.fixture
def prepared(story_file: Path) -> Path:
    path = story_file.with_name("story.txt-characters.npz")
    prepare(str(story_file), path)
    return path
