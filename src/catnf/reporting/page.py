"""Pages of one file: style, pictures and tables are inside, nothing is fetched."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from catnf.reporting.grid import Grid

STYLE = """
:root { color-scheme: light }
* { box-sizing: border-box }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth }
body { margin: 0; background: #fff; color: #1c2026; font: 1.0625rem/1.6 system-ui, -apple-system, "Segoe UI",
  Roboto, "Helvetica Neue", Arial, sans-serif; overflow-wrap: break-word }
main { max-width: 70rem; margin: 0 auto; padding: 2rem 1.25rem 5rem }
header p, section > p, figcaption, .notes { max-width: 46rem }
h1 { font-size: clamp(1.7rem, 5vw, 2.5rem); line-height: 1.15; letter-spacing: -.02em; margin: .5rem 0 1rem }
h2 { font-size: 1.5rem; line-height: 1.25; letter-spacing: -.01em; margin: 3.5rem 0 .75rem;
  padding-top: 1.5rem; border-top: 1px solid #dfe3e8 }
h3 { font-size: 1.1rem; margin: 2rem 0 .5rem }
a { color: #0b5cad }
nav { display: flex; flex-wrap: wrap; gap: .35rem .5rem; margin: 1.5rem 0 0; font-size: .95rem }
nav a { border: 1px solid #cfd6de; border-radius: 1rem; padding: .15rem .8rem; text-decoration: none }
nav a:hover, nav a:focus { background: #eef4fb }
.scroll { overflow-x: auto; margin: 1rem 0; border: 1px solid #dfe3e8; border-radius: .5rem }
.scroll:focus-visible { outline: 2px solid #0b5cad }
table { border-collapse: collapse; width: 100%; font-size: .93rem; font-variant-numeric: tabular-nums }
th, td { padding: .45rem .8rem; text-align: left; vertical-align: top; white-space: nowrap }
thead th { background: #f3f5f8; border-bottom: 1px solid #cfd6de; font-weight: 600 }
tbody th { font-weight: 500; white-space: normal; min-width: 9.5rem }
tbody tr + tr > * { border-top: 1px solid #eceff3 }
tbody tr + tr.more > * { border-top: 0 }
figure { margin: 1.25rem 0 }
figure img { display: block; max-width: 100%; height: auto; margin: 0 auto }
figure .scroll { margin: 0; padding: .5rem }
figcaption, .notes { color: #4a525c; font-size: .93rem; margin-top: .5rem }
.notes p { margin: .25rem 0 }
pre { background: #f3f5f8; border-radius: .5rem; padding: 1rem; overflow-x: auto;
  font-size: .9rem; line-height: 1.45 }
code { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: .92em }
blockquote { margin: 1rem 0; padding: .25rem 1rem; border-left: 3px solid #0b5cad; white-space: pre-wrap }
@media (max-width: 40rem) {
  main { padding: 1rem 1rem 3rem }
  table { font-size: .8rem }
  th, td { padding: .3rem .35rem; white-space: normal }
  tbody th { min-width: 6.5rem }
  figure.wide img { max-width: none; width: 46rem }
}
@media print { nav { display: none } .scroll { overflow: visible } }
"""


@dataclass(frozen=True)
class Section:
    """A part of a page.

    Attributes:
        name: its address on the page, after `#`.
        title: its heading.
        body: HTML.
    """

    name: str
    title: str
    body: str


def document(title: str, intro: Iterable[str], sections: Sequence[Section], style: str = "") -> str:
    """A whole page; `intro` are paragraphs of plain text, `style` is what its parts need of their own."""
    links = "".join(f'<a href="#{one.name}">{html.escape(one.title)}</a>' for one in sections)
    body = "\n".join(
        f'<section id="{one.name}"><h2>{html.escape(one.title)}</h2>\n{one.body}\n</section>'
        for one in sections
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<style>{STYLE}{style}</style></head>
<body><main>
<header><h1>{html.escape(title)}</h1>
{paragraphs(*intro)}
<nav aria-label="Contents">{links}</nav></header>
{body}
</main></body></html>
"""


def paragraphs(*texts: str) -> str:
    """Plain text as paragraphs."""
    return "\n".join(f"<p>{html.escape(text)}</p>" for text in texts)


def table(grid: Grid, heading: bool = True) -> str:
    """A table with its title above and its notes below."""
    title = f"<h3>{html.escape(grid.title)}</h3>\n" if heading and grid.title else ""
    notes = f'\n<div class="notes">{paragraphs(*grid.notes)}</div>' if grid.notes else ""
    return f"{title}{grid.html()}{notes}"


def picture(image: Path | bytes, alt: str, caption: str = "", wide: bool = False) -> str:
    """A PNG inside the page; a `wide` one keeps its size on a phone and scrolls instead."""
    shown, text = inline(image, alt), html.escape(alt, quote=True)
    if wide:
        shown = f'<div class="scroll" tabindex="0" role="region" aria-label="{text}">{shown}</div>'
    below = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
    kind = ' class="wide"' if wide else ""
    return f"<figure{kind}>{shown}{below}</figure>"


def inline(image: Path | bytes, alt: str) -> str:
    """A PNG as an image that needs no file."""
    data = base64.b64encode(image if isinstance(image, bytes) else image.read_bytes()).decode()
    return f'<img alt="{html.escape(alt, quote=True)}" src="data:image/png;base64,{data}">'


def tables_page(title: str, source: str, grids: Sequence[Grid]) -> str:
    """A page of tables that have titles."""
    sections = [
        Section(f"table-{number}", grid.title, table(grid, heading=False))
        for number, grid in enumerate(grids)
    ]
    return document(title, [f"Paper: {source}."], sections)
