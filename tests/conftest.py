"""What tests share: fixed seeds, hypothesis settings, modules that are no identities, padded copies."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import settings
from torch import Tensor, nn

# Derandomized: a failure in CI is the same failure on every machine, and nothing is written to disk.
settings.register_profile("catnf", deadline=None, derandomize=True, database=None, max_examples=25)
settings.load_profile("catnf")

# Tensors here are tiny: a second thread costs far more in waiting than it computes.
torch.set_num_threads(1)

Seeded = Callable[[int], torch.Generator]
Perturb = Callable[[nn.Module, float], nn.Module]
Pad = Callable[[Tensor, int, float], Tensor]
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")
FLAGS += ("--disable-component-update", "--disable-sync")

# For every text that is shown: its contrast with the nearest background that is not transparent.
CONTRAST = """
const light = c => { const v = c.match(/[\\d.]+/g).slice(0, 3).map(x => x / 255)
    .map(x => x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
  return .2126 * v[0] + .7152 * v[1] + .0722 * v[2] };
const behind = e => { for (; e; e = e.parentElement) {
    const c = getComputedStyle(e).backgroundColor; if (!/, 0\\)$/.test(c)) return c }
  return 'rgb(255,255,255)' };
return [...document.querySelectorAll('main *')].filter(e => [...e.childNodes].some(
    n => n.nodeType === 3 && n.textContent.trim())).map(e => {
  const pair = [light(getComputedStyle(e).color), light(behind(e))].sort((a, b) => b - a);
  return (pair[0] + .05) / (pair[1] + .05) }).reduce((a, b) => Math.min(a, b), 99);
"""

PackMolecules = Callable[[Path, Mapping[str, Sequence[str]]], Path]


class Outcome(NamedTuple):
    """What a command left."""

    code: object
    out: str
    err: str


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What is marked `gpu` is skipped where there is none."""
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    """Layers draw their first weights from the global generator."""
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def seeded() -> Seeded:
    """A generator with the given seed."""
    return lambda seed: torch.Generator().manual_seed(seed)


@pytest.fixture(scope="session")
def perturb(seeded: Seeded) -> Perturb:
    """Adds noise to all parameters in place, since freshly made parts are close to identities."""

    @torch.no_grad()
    def add_noise(module: nn.Module, scale: float = 0.3) -> nn.Module:
        generator = seeded(7)
        for parameter in module.parameters():
            parameter.add_(scale * torch.randn(parameter.shape, generator=generator))
        return module

    return add_noise


@pytest.fixture(scope="session")
def pad() -> Pad:
    """Appends `more` elements of the given value to `values: [batch, elements, ...]`."""

    def append(values: Tensor, more: int, value: float = 0.0) -> Tensor:
        tail = values.new_full((values.shape[0], more, *values.shape[2:]), value)
        return torch.cat([values, tail], dim=1)

    return append


@pytest.fixture
def run_catnf(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., Outcome]:
    """Runs the command line in this process, in an empty folder."""
    from catnf.cli import main

    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["catnf", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return Outcome(stopped.value.code or 0, captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def pack_molecules() -> PackMolecules:
    """Writes a file of neutral molecules from the SMILES of every split."""
    pytest.importorskip("rdkit", reason="needs RDKit")
    from catnf.tasks.molecules.archive import MoleculeArchive, MoleculeData
    from catnf.tasks.molecules.chemistry import strict_smiles
    from catnf.tasks.molecules.smiles import encode
    from catnf.tasks.molecules.vocabulary import NEUTRAL, MolecularGraph

    def pack(path: Path, splits: Mapping[str, Sequence[str]]) -> Path:
        archives = {}
        for name, smiles in splits.items():
            graphs = [graph for text in smiles if isinstance(graph := encode(text, NEUTRAL), MolecularGraph)]
            assert len(graphs) == len(smiles)
            valid = [strict_smiles(graph, NEUTRAL) is not None for graph in graphs]
            archives[name] = MoleculeArchive.pack(graphs, valid)
        MoleculeData(NEUTRAL, archives, {}).save(path)
        return path

    return pack


@pytest.fixture
def device_counts(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From its call on, what is repeated gets its indices as tensors, as on a GPU."""
    from catnf import repetition
    from catnf.flows import rounds
    from catnf.nets import lexical

    def change() -> None:
        for module in (repetition, rounds, lexical):
            monkeypatch.setattr(module, "counts_on_device", lambda device: True)

    return change


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Any]:
    """A real browser without a window."""
    if BROWSER is None or DRIVER is None:
        pytest.skip("needs chromium and chromedriver")
    driver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    options = driver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(flag)
    opened = driver.Chrome(options, driver.ChromeService(DRIVER))
    yield opened
    opened.quit()


@pytest.fixture
def lowest_contrast() -> str:
    """JavaScript that gives the lowest contrast of a text on a page with what is behind it."""
    return CONTRAST
