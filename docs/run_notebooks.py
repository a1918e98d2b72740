"""Runs notebooks in empty folders and keeps what they print: python docs/run_notebooks.py NOTEBOOK ..."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any


def executed(path: Path, folder: Path) -> Any:
    """A notebook with the outputs of all its cells, run in `folder`."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


def plain(notebook: Any) -> Any:
    """The notebook without what changes from run to run: times, and what only some viewers show."""
    for cell in notebook.cells:
        cell.metadata = {}
        joined: list[Any] = []
        for output in cell.get("outputs", []):
            output.get("data", {}).pop("text/html", None)
            if "metadata" in output:
                output.metadata = {}
            if joined and output.get("name") == joined[-1].get("name", "another"):
                joined[-1].text += output.text  # what was printed came in pieces
            else:
                joined.append(output)
        if "outputs" in cell:
            cell.outputs = joined
    return notebook


def main(paths: list[Path]) -> None:
    import nbformat

    for path in paths:
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(plain(executed(path, Path(folder))), path)
        print(path)


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
