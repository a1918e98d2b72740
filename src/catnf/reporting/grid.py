"""Tables of words, to be shown as Markdown or HTML."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

NOT_MEASURED = "not measured"
"""In the cell of a figure that there is none of."""


@dataclass(frozen=True)
class Grid:
    """A table with a head.

    Attributes:
        head: titles of the columns.
        rows: cells, as many as there are columns.
        title: above it; may be empty.
        notes: sentences below it.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    notes: Sequence[str] = ()

    def markdown(self) -> str:
        """The table alone, without title and notes."""
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)

    def html(self) -> str:
        """The table alone, in a box that scrolls where the page is narrower.

        A row whose first cell is empty belongs to the one above.
        """
        head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in self.head)
        rows = "\n".join(_rows(group) for group in _groups(self.rows))
        label = html.escape(self.title or self.head[0] or "table", quote=True)
        return (
            f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table>\n'
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
        )


def _groups(rows: Iterable[Sequence[str]]) -> list[list[Sequence[str]]]:
    groups: list[list[Sequence[str]]] = []
    for row in rows:
        if row[0] or not groups:
            groups.append([row])
        else:
            groups[-1].append(row)
    return groups


def _rows(group: Sequence[Sequence[str]]) -> str:
    """Rows that share their first cell."""
    span = f' rowspan="{len(group)}"' if len(group) > 1 else ""
    lines = ["".join(f"<td>{_written(cell)}</td>" for cell in cells[1:]) for cells in group]
    first = f'<tr><th scope="row"{span}>{html.escape(group[0][0])}</th>{lines[0]}</tr>'
    return "\n".join([first, *(f'<tr class="more">{line}</tr>' for line in lines[1:])])


def _written(cell: str) -> str:
    """A cell for HTML; where it is broken into lines, ± stays with its number."""
    return html.escape(cell).replace("± ", "±&nbsp;")


def markdown_page(title: str, grids: Iterable[Grid]) -> str:
    """Several tables under a title, as a Markdown document."""
    parts = [f"# {title}"]
    for grid in grids:
        parts += [f"## {grid.title}", grid.markdown(), *grid.notes]
    return "\n\n".join(parts) + "\n"
