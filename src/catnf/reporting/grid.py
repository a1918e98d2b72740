"""Tables of words, to be shown as Markdown or HTML."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


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
        """The table alone, in a box that scrolls where the page is narrower."""
        more = ' class="more"'
        head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in self.head)
        # A row whose first cell is empty belongs to the one above.
        rows = "\n".join(f"<tr{'' if cells[0] else more}>{_row(cells)}</tr>" for cells in self.rows)
        label = html.escape(self.title or self.head[0] or "table", quote=True)
        return (
            f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table>\n'
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
        )


def _row(cells: Sequence[str]) -> str:
    first, *rest = (html.escape(cell) for cell in cells)
    return f'<th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in rest)


def markdown_page(title: str, grids: Iterable[Grid]) -> str:
    """Several tables under a title, as a Markdown document."""
    parts = [f"# {title}"]
    for grid in grids:
        parts += [f"## {grid.title}", grid.markdown(), *grid.notes]
    return "\n\n".join(parts) + "\n"
