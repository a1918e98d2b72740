"""The limits that docs/studio.md names are those of the code."""

from pathlib import Path

from catnf.studio.limits import Limits


def test_limits() -> None:
    text = (Path(__file__).parents[2] / "docs/studio.md").read_text()
    rows = dict(
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line[:2] == "| "
    )
    most = Limits()
    assert rows["molecules at once"] == f"{most.molecules}"
    assert rows["steps of a walk"] == f"{most.steps}"
    assert rows["characters of a SMILES"] == f"{most.smiles}"
    assert rows["nodes, edges of a graph"] == f"{most.nodes}, {most.edges:,}"
    assert rows["colorings tried"] == f"{most.colorings}"
    assert rows["characters of a text, symbols written"] == f"{most.prompt}, {most.symbols}"
    size = f"{most.upload / 1e6:g} MB, {most.rows:,} rows, {most.columns} columns"
    assert rows["a table, `.csv` or `.tsv`"] == size
    assert rows["temperatures"] == f"{most.coldest:g} to {most.hottest:g}"
    assert f"at most {most.seconds} seconds" in text
    assert f"the {most.anomalies} least likely" in text
