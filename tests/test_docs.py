"""What the pages of docs/ say is true: code runs, commands exist, quotations and figures are there."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
WITH_COMMANDS = [*PAGES, ROOT / "README.md", ROOT / "benchmarks" / "README.md"]
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
EXTRAS = {"chemists.md": "rdkit", "tables.md": "sklearn"}  # what a page needs that not everybody has
SHORT = {
    # Commands of the quick starts that are run as written, with files the lines before them leave.
    "chemists.md": ("catnf score mine.smi", "catnf interpolate", "catnf sample molecules/zinc250k"),
    "tables.md": ("catnf fit", "catnf sample", "catnf score", "catnf report"),
    "texts.md": ("catnf sample", "catnf score", "catnf train text", "catnf evaluate runs/text"),
    "researchers.md": (
        "catnf list",
        "catnf train sets/shuffling/mixture -o",
        "catnf evaluate runs/small",
        "catnf sample runs/small",
        "catnf sample text/text8/mixture",
    ),
}


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hooks = load("hooks")


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def commands(page: Path) -> Iterator[list[str]]:
    """Every line of the shell blocks of a page that calls catnf, in words."""
    for block in blocks(page, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line.split(" > ")[0], comments=True)
            if "catnf" in words:
                yield words[words.index("catnf") :]


@pytest.mark.parametrize(
    "page",
    [page for page in WITH_COMMANDS if any(commands(page))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_commands_and_options_exist(page: Path) -> None:
    from typer.main import get_command

    from catnf.cli import app

    for words in commands(page):
        command: Any = get_command(app)
        rest = words[1:]
        while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
            assert rest[0] in command.commands, f"{page.name}: there is no {shlex.join(words)}"
            command, rest = command.commands[rest[0]], rest[1:]
        known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        given = {word.split("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
        assert given <= known, (
            f"{page.name}: {shlex.join(words)} has options {given - known} that do not exist"
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_names_of_experiments_exist(page: Path) -> None:
    from catnf.experiments import experiment_names

    names = experiment_names()
    told = re.findall(r"\b(?:sets|coloring|molecules|text|table)/[\w-]+/[\w-]+", page.read_text())
    names += [str(path.relative_to(ROOT / "results").with_suffix("")) for path in ROOT.glob("results/**/*")]
    assert [name for name in told if name not in names] == []


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.stem
)
def test_code_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(EXTRAS.get(page.name, "torch"))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "docs"}
    for code in blocks(page, "python"):
        exec(compile(code, str(page), "exec"), names)


@pytest.mark.parametrize("page", SHORT)
def test_short_commands_run(page: str, run_catnf: Callable[..., Any], tmp_path: Path) -> None:
    pytest.importorskip(EXTRAS.get(page, "torch"))
    if page == "tables.md":
        names: dict[str, Any] = {}
        exec(blocks(DOCS / "start" / page, "python")[0], names)  # writes data.csv
    for line in re.findall(r"^printf .* > .*$", (DOCS / "start" / page).read_text(), re.MULTILINE):
        subprocess.run(["bash", "-c", line], check=True)  # writes the files that commands read
    run = 0
    for words in commands(DOCS / "start" / page):
        if shlex.join(words).startswith(SHORT[page]):
            outcome = run_catnf(*words[1:])
            assert outcome.code == 0, outcome.err
            run += 1
    assert run >= len(SHORT[page])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_what_is_quoted_exists(page: Path) -> None:
    filled = hooks.filled(page.read_text())
    assert not re.search(r"^@(source|table)|\{\{", filled, re.MULTILINE)


def test_a_missing_quotation_is_an_error() -> None:
    with pytest.raises(KeyError, match="no Nothing"):
        hooks.filled("@source catnf.flows.linear Nothing.forward")
    with pytest.raises(KeyError, match="nothing"):
        hooks.filled("@table nothing")
    with pytest.raises(KeyError, match="nothing"):
        hooks.filled("{{ sets/shuffling/mixture metrics.nothing .4f }}")


def test_quotations_are_the_lines_of_the_source() -> None:
    quoted = hooks.source("catnf.flows.transform", ["Sequential.inverse"])
    told = [line.strip() for line in quoted.splitlines()[1:-1]]
    assert told[0] == "def inverse(self, z: Tensor, ctx: Context) -> Tensor:"
    source = [line.strip() for line in (ROOT / "src/catnf/flows/transform.py").read_text().splitlines()]
    assert all(line in source for line in told)
    assert '"""' not in hooks.source("catnf.encodings.encoding", ["Encoding.encode"])


@pytest.mark.parametrize("name", ["limits.md", "measuring.md"])
def test_figures_come_from_results(name: str) -> None:
    """Numbers with decimals are filled in, but for a few that are no results."""
    text = re.sub(r"\{\{.*?\}\}|`[^`]*`", "", (DOCS / name).read_text())
    assert set(re.findall(r"\d+\.\d+", text)) <= {"0.5", "1.96", "3.11", "2.13"}


def test_tables_of_readme_are_shown() -> None:
    page = hooks.filled((DOCS / "results.md").read_text())
    names = re.findall(r"<!-- (\w+): begin -->", hooks.readme())
    assert names
    assert all(hooks.table(name) in page for name in names)


def test_every_page_is_in_the_navigation() -> None:
    told = (ROOT / "mkdocs.yml").read_text()
    pages = [str(page.relative_to(DOCS)) for page in PAGES]
    pages += [f"notebooks/{path.stem}.md" for path in NOTEBOOKS]
    assert [page for page in pages if f" {page}\n" not in told] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("nbclient", "ipykernel"):
        pytest.importorskip(module, reason=f"{module} runs notebooks; it comes with the extra docs")
    for module in {"your-own-molecules": ["rdkit"], "your-own-table": ["sklearn", "pandas"]}.get(
        path.stem, []
    ):
        pytest.importorskip(module)
    monkeypatch.setenv("OMP_NUM_THREADS", str(torch.get_num_threads()))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    told = json.loads(path.read_text())
    ran = load("run_notebooks").executed(path, tmp_path)
    for kept, new in zip(told["cells"], ran.cells, strict=True):
        assert bool(kept.get("outputs")) == bool(new.get("outputs")), "run make notebooks"
    text = json.dumps(ran)
    if path.stem == "your-own-table":
        assert float(re.search(r"area under the curve: ([\d.]+)", text)[1]) > 0.9  # type: ignore[index]
    if path.stem == "a-flow-from-parts":
        assert int(re.search(r"(\d+)% of 1,000 samples agree", text)[1]) > 50  # type: ignore[index]
        assert "back again: True" in text
    if path.stem == "your-own-molecules":
        assert "2 molecules drawn from it" in text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_small(path: Path) -> None:
    assert path.stat().st_size < 100_000
    assert hooks.notebook_page(path).startswith("# ")
    assert "/tmp/" not in path.read_text()
