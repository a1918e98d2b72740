"""The report: one page with all its parts, nothing fetched, and what is missing named."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from catnf.reference import Results, load_paper
from catnf.reporting.encodings import KINDS
from catnf.reporting.report import ReportOptions, write_report

Run = Callable[..., Any]
ALWAYS = {
    "short",
    "encodings",
    "losses",
    "sets",
    "coloring",
    "molecules",
    "distributions",
    "text",
    "texts",
    "credit",
    "tools",
    "speed",
}


@dataclass
class Seen(HTMLParser):
    """What is on a page."""

    ids: set[str] = field(default_factory=set)
    sources: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    alts: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.ids |= {values["id"]} if "id" in values else set()
        self.sources += [values["src"]] if "src" in values else []
        self.links += [values["href"]] if "href" in values else []
        self.alts += [values.get("alt", "")] if tag == "img" else []

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def seen(page: Path) -> Seen:
    parser = Seen()
    parser.feed(page.read_text())
    return parser


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A page of small pictures, and what was left out."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("report")
    losses = folder / "runs" / "mine" / "losses.csv"
    losses.parent.mkdir(parents=True)
    losses.write_text("step,bits\n" + "\n".join(f"{step},{3 - step / 50}" for step in range(50)))
    options = ReportOptions(runs=[folder / "runs"], steps=3, molecules=4, graphs=4)
    return folder / "report.html", write_report(folder / "report.html", options)


def test_every_part_is_there(made: tuple[Path, list[str]]) -> None:
    page, left_out = made
    found = seen(page)
    expected = set(ALWAYS)
    if find_spec("ortools") and find_spec("networkx"):
        expected.add("colorings")
    if find_spec("rdkit"):
        expected.add("drawn-molecules")
    assert expected <= found.ids
    assert not any(sentence.startswith(tuple(ALWAYS)) for sentence in left_out)
    text = " ".join(found.texts)
    assert "the arithmetic floor" in text
    for row in load_paper().rows.values():
        assert row.table in text
    assert any("mine" in alt for alt in found.alts), "losses of one's own runs are drawn"
    assert sum(words in alt for alt in found.alts for words in KINDS.values()) == len(KINDS)


def test_nothing_is_fetched_and_every_picture_is_one(made: tuple[Path, list[str]]) -> None:
    found = seen(made[0])
    assert found.sources
    for source in found.sources:
        kind, data = source.split(",", 1)
        assert kind == "data:image/png;base64"
        assert base64.b64decode(data).startswith(b"\x89PNG")
    assert all(alt for alt in found.alts)
    assert {link.removeprefix("#") for link in found.links} <= found.ids
    assert not {"script", "link", "iframe"} & set(found.tags)
    assert "@import" not in (content := made[0].read_text())
    assert "url(" not in content


def test_what_has_no_source_is_left_out_with_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("rdkit.Chem", "networkx"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    page = tmp_path / "report.html"
    left_out = write_report(page, ReportOptions(results=Results(), encodings=()))
    titles = {sentence.split(": ")[0]: sentence for sentence in left_out}
    assert {
        "Encodings",
        "Loss curves",
        "Distributions of molecules",
        "Tables of one's own",
        "Speed",
    } <= titles.keys()
    assert "catnf[coloring]" in titles["A picture of colorings"]
    assert "catnf[chem]" in titles["A picture of molecules"]
    text = " ".join(seen(page).texts)
    assert all(sentence in text for sentence in left_out)
    assert "not measured" in text, "the paper's tables are there all the same"


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        (["-o", "page.txt"], "ends in .html"),
        (["--runs", "nowhere"], "There is no folder nowhere"),
        (["--results", "nowhere"], "There is no folder nowhere"),
        (["model"], "needs real rows"),
        (["--target", "age"], "--target age is for a model of a table"),
        (["model", "rows.csv", "--runs", "here"], "are for the page of the whole project"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_refusals(run_catnf: Run, tmp_path: Path, arguments: list[str], fragment: str) -> None:
    done = run_catnf("report", *arguments)
    assert (done.code, done.out) == (2, "")
    assert fragment in done.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)], ids=["desktop", "phone"])
def test_in_a_browser(
    browser: Any, lowest_contrast: str, made: tuple[Path, list[str]], width: int, height: int
) -> None:
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(made[0].as_uri())
    assert browser.execute_script("return document.scrollingElement.scrollWidth <= innerWidth")
    broken = "return [...document.images].filter(i => !i.complete || !i.naturalWidth).length"
    assert browser.execute_script(broken) == 0
    assert browser.execute_script("return document.images.length") >= 6
    assert browser.execute_script(lowest_contrast) >= 4.5
    for name in ALWAYS:
        shown = f"return document.getElementById('{name}').getBoundingClientRect().height"
        assert browser.execute_script(shown) > 50
