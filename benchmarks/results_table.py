"""Writes the tables of results into README.md and the summary inside the package, from `results/` alone."""

from __future__ import annotations

from pathlib import Path

from catnf.reference import SUMMARY, Results, load_paper
from catnf.reporting.tables import readme_tables

ROOT = Path(__file__).parent.parent


def fill(text: str, name: str, content: str) -> str:
    """`text` with everything between the two marks of `name` replaced."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, rest = text.split(begin)
    return f"{before}{begin}\n{content}\n{end}{rest.split(end)[1]}"


def filled(root: Path) -> str:
    """README.md as it should be."""
    text = (root / "README.md").read_text()
    for name, table in readme_tables(Results.of_folder(root / "results"), load_paper()).items():
        text = fill(text, name, table.markdown())
    return text


if __name__ == "__main__":
    (ROOT / "README.md").write_text(filled(ROOT))
    SUMMARY.write_text(Results.of_folder(ROOT / "results").summary())
