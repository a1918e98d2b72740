"""Tables as Markdown and HTML, and pages."""

from __future__ import annotations

from catnf.reporting.grid import Grid, markdown_page
from catnf.reporting.page import tables_page

GRID = Grid(["a", "b"], [["<x>", "1"], ["", "2"], ["y", "3"]], "T & U", ["Said."])


def test_markdown() -> None:
    assert GRID.markdown().splitlines() == [
        "| a | b |",
        "| --- | --- |",
        "| <x> | 1 |",
        "|  | 2 |",
        "| y | 3 |",
    ]
    page = markdown_page("All", [GRID])
    assert page.startswith("# All\n\n## T & U\n\n| a")
    assert page.endswith("\n\nSaid.\n")


def test_html_is_escaped_and_rows_without_a_name_belong_to_the_one_above() -> None:
    page = GRID.html()
    assert '<th scope="row" rowspan="2">&lt;x&gt;</th>' in page
    assert page.count("<tr") == 4
    assert "<x>" not in page
    assert 'class="scroll"' in page


def test_pages_have_every_table_and_note() -> None:
    page = tables_page("<All>", "a source", [GRID, Grid(["c"], [["d"]], "V")])
    assert page.count("<table>") == 2
    assert "<title>&lt;All&gt;</title>" in page
    assert "T &amp; U" in page
    assert "Said." in page
