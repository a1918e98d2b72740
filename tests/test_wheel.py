"""The wheel holds every file of the package: models, experiments, pages."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that nothing is left here."""
    try:
        major = int(version("setuptools").split(".")[0])
    except PackageNotFoundError:
        major = 0
    if major < 77:
        pytest.skip("needs setuptools 77 or newer, with which the wheel is built")
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    code = f"from setuptools import build_meta; build_meta.build_wheel({str(out)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=copy, check=True, capture_output=True, timeout=300)
    (built,) = out.glob("*.whl")
    return built


def test_it_holds_every_file_of_the_package(wheel: Path) -> None:
    source = ROOT / "src"
    own = {
        str(path.relative_to(source))
        for path in (source / "catnf").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with ZipFile(wheel) as file:
        held = {name for name in file.namelist() if ".dist-info/" not in name}
    assert own - held == set()
    assert held - own == set()


def test_its_size_is_what_readme_says(wheel: Path) -> None:
    size = round(wheel.stat().st_size / 1e6)
    assert f"{size} MB" in (ROOT / "README.md").read_text(), (
        f"the wheel has {size} MB; README.md says otherwise"
    )
