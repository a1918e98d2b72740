"""Without an extra, what needs it says so in one sentence, and everything else works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = {
    "chem": ("rdkit", "fcd_torch"),
    "coloring": ("ortools", "networkx"),
    "table": ("pandas", "sklearn", "pyarrow", "polars"),
    "studio": ("fastapi", "uvicorn"),
}
MODEL = "molecules/zinc250k/growth-small"
NEEDING = [
    ("chem", ["sample", MODEL, "-n", "2"]),
    ("chem", ["sample", MODEL, "-n", "2", "--grid", "out.png"]),
    ("chem", ["evaluate", MODEL, "--generated", "2"]),
    ("chem", ["score", "mine.smi"]),
    ("chem", ["interpolate", "CCO", "CCN", "-o", "path.png"]),
    ("chem", ["data", "molecules", "mine.smi"]),
    ("chem", ["train", "molecules", "--smiles", "mine.smi", "-o", "run"]),
    ("coloring", ["color", "edges.txt"]),
    ("coloring", ["data", "coloring", "--counts", "2", "1", "1", "-o", "graphs.npz", "--workers", "1"]),
    ("table", ["fit", "rows.csv", "-o", "model"]),
    ("table", ["score", "fitted", "rows.csv"]),
    ("table", ["sample", "fitted", "-n", "2"]),
    ("table", ["report", "fitted", "rows.csv"]),
    ("studio", ["studio"]),
]


def without(extra: str, code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python as if an extra were not installed."""
    gone = "import sys\n" + "".join(f"sys.modules[{name!r}] = None\n" for name in PACKAGES[extra])
    command = [sys.executable, "-c", gone + code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def catnf_without(extra: str, arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    code = f"sys.argv[1:] = {arguments!r}\nfrom catnf.cli import main\nmain()"
    return without(extra, code, folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds molecules, edges, rows and a model of rows."""
    made = tmp_path_factory.mktemp("files")
    (made / "mine.smi").write_text("CCO\nCCN\n")
    (made / "edges.txt").write_text("1 2\n2 3\n")
    (made / "rows.csv").write_text("a,b\n" + "x,1.5\ny,2.5\n" * 30)
    pytest.importorskip("sklearn", reason="needs the extra table")
    from catnf.tabular import CategoricalFlow
    from catnf.tabular.frames import read_table

    CategoricalFlow(max_steps=2, random_state=0).fit(read_table(made / "rows.csv")).save(made / "fitted")
    return made


@pytest.mark.parametrize(("extra", "arguments"), NEEDING, ids=lambda value: str(value)[:40])
def test_what_needs_an_extra_names_it(extra: str, arguments: list[str], folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    done = catnf_without(extra, arguments, folder)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert last.startswith("catnf: ")
    assert f"pip install 'catnf[{extra}]'" in last
    assert last.endswith(".")
    assert "Traceback" not in done.stderr
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        ("chem", ["score", "fitted", "rows.csv"]),
        ("chem", ["sample", "fitted", "-n", "2"]),
        ("table", ["color", "edges.txt"]),
        ("table", ["sample", "sets/shuffling/mixture", "-n", "2"]),
        ("studio", ["list"]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_does_not_need_it_works(extra: str, arguments: list[str], folder: Path) -> None:
    done = catnf_without(extra, arguments, folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize(
    ("extra", "call"),
    [
        ("chem", "import catnf; catnf.sample_molecules(1)"),
        ("chem", "import catnf; catnf.score_molecules(['CCO'])"),
        ("chem", "import catnf; catnf.interpolate_molecules('CCO', 'CCN')"),
        ("table", "from catnf.tabular import CategoricalFlow"),
    ],
)
def test_in_python(extra: str, call: str, tmp_path: Path) -> None:
    done = without(extra, call, tmp_path)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("catnf.errors.MissingDependencyError: ")
    assert last.endswith((f"'catnf[{extra}]'.",))


def test_the_tour_names_what_to_install(tmp_path: Path) -> None:
    """Square brackets in sentences and in SMILES are no styles."""
    code = (
        "from rich.console import Console\nfrom catnf.demo import _molecules\n_molecules(Console(width=200))"
    )
    done = without("chem", code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "pip install 'catnf[chem]'." in done.stdout
