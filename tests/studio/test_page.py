"""The command serves the page, and a real browser uses all of it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra studio")

Run = Callable[..., Any]


@contextmanager
def serving(*options: object) -> Iterator[str]:
    """The address of a studio in a process of its own, which ends by Ctrl-C."""
    command = [sys.executable, "-m", "catnf", "studio", "--port", "0", "--device", "cpu", *map(str, options)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.send_signal(signal.SIGINT)
        assert server.wait(60) == 0


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a studio with the bundled models."""
    with serving() as found:
        yield found


def test_it_is_heard_on_this_computer_only(address: str) -> None:
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
    with urllib.request.urlopen(address) as page:
        assert b"catnf studio" in page.read()
        assert page.headers["cross-origin-resource-policy"] == "same-origin"
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(urllib.request.Request(address, headers={"Host": "evil.example"}))


def test_refusals(run_catnf: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run_catnf("studio", "--port", port)
        assert (done.code, done.out) == (2, "")
        assert f"Port {port} cannot be used" in done.err
    assert "port is 70000" in run_catnf("studio", "--port", 70000).err
    assert "There is no bundled model or file 'nowhere'" in run_catnf("studio", "--text", "nowhere").err
    assert "knows no text" in run_catnf("studio", "--text", "sets/shuffling/mixture").err
    monkeypatch.setitem(sys.modules, "fastapi", None)  # as if it were not installed
    done = run_catnf("studio")
    assert done.code == 2
    assert done.err.endswith("run pip install 'catnf[studio]'.\n")


def finished(browser: Any, part: str, seconds: float = 90) -> str:
    """What a part of the page says when it is done."""
    from selenium.webdriver.support.ui import WebDriverWait

    idle = f"""const part = document.getElementById('{part}');
        return !part.hasAttribute('aria-busy') && part.querySelector('.message').textContent"""
    WebDriverWait(browser, seconds).until(lambda driver: driver.execute_script(idle))
    return str(browser.execute_script(idle))


def opened(browser: Any, address: str, width: int = 1280, height: int = 900) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(address)
    ready = "return document.documentElement.dataset.ready"
    WebDriverWait(browser, 60).until(lambda driver: driver.execute_script(ready))


def press(browser: Any, selector: str) -> None:
    browser.execute_script("document.querySelector(arguments[0]).click()", selector)


def fill(browser: Any, selector: str, value: str) -> None:
    browser.execute_script("document.querySelector(arguments[0]).value = arguments[1]", selector, value)


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)], ids=["desktop", "phone"])
def test_molecules_and_look(
    browser: Any, lowest_contrast: str, address: str, width: int, height: int
) -> None:
    opened(browser, address, width, height)
    fill(browser, "#molecules [name=count]", "4")
    fill(browser, "#molecules [name=temperature]", "2")
    press(browser, "#molecules [type=submit]")
    assert "of 4 are valid" in finished(browser, "molecules")
    smiles = "return [...document.querySelectorAll('#molecules code')].map(e => e.textContent)"
    first = browser.execute_script(smiles)
    press(browser, "#molecules [data-next]")
    assert "of 4 are valid" in finished(browser, "molecules")
    assert len(set(first) | set(browser.execute_script(smiles))) == 8, "another seed gives others"
    press(browser, "#path [type=submit]")
    assert "of 8 are valid" in finished(browser, "path")
    broken = "return [...document.images].filter(i => !i.complete || !i.naturalWidth || !i.alt).length"
    assert browser.execute_script(broken) == 0
    assert browser.execute_script("return document.images.length") == 12
    assert browser.execute_script("return document.scrollingElement.scrollWidth <= innerWidth")
    assert browser.execute_script(lowest_contrast) >= 4.5
    press(browser, "#text [type=submit]")
    assert finished(browser, "text") == "Taken in lower case: T."
    quote = browser.execute_script("return document.querySelector('#text blockquote').textContent")
    assert quote.startswith("the history of")
    small = (
        "return [...document.querySelectorAll('button')].filter(b => b.offsetParent && b.offsetHeight < 40)"
    )
    assert browser.execute_script(small) == []
    unnamed = "return [...document.querySelectorAll('input, select, textarea')].filter(e => !e.labels.length)"
    assert browser.execute_script(unnamed) == []


def test_refusals_are_shown(browser: Any, address: str) -> None:
    opened(browser, address)
    fill(browser, "#path [name=first]", "hello")
    press(browser, "#path [type=submit]")
    assert "'hello' cannot be used" in finished(browser, "path")
    assert browser.execute_script("return document.querySelector('#path .message.error') !== null")
    press(browser, "#table [type=submit]")
    assert "No table is chosen" in finished(browser, "table")
    fill(browser, "#graph textarea", "a a")
    press(browser, "#graph [type=submit]")
    assert "joins a with itself" in finished(browser, "graph")


def test_a_graph_is_drawn_by_hand_and_colored(browser: Any, address: str) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By

    opened(browser, address)
    press(browser, "#graph [data-clear]")
    canvas = browser.find_element(By.ID, "canvas")

    def click(x: int, y: int) -> None:
        ActionChains(browser).move_to_element_with_offset(canvas, x, y).click().perform()

    edges = "return document.querySelector('#graph textarea').value"
    corners = [(-150, -80), (150, -80), (0, 90)]
    for corner in corners:
        click(*corner)
    assert browser.execute_script(edges) == "1\n2\n3"
    for one, two in ((0, 1), (1, 2), (2, 0)):
        click(*corners[one])
        click(*corners[two])
    assert browser.execute_script(edges) == "1 2\n2 3\n3 1"
    press(browser, "#graph [type=submit]")
    assert "A valid coloring" in finished(browser, "graph")
    fills = "return [...document.querySelectorAll('#canvas circle')].map(c => c.style.fill)"
    assert len(set(browser.execute_script(fills))) == 3
    # A node that is dragged stays joined, and no other one appears.
    dragged = ActionChains(browser).move_to_element_with_offset(canvas, *corners[2])
    dragged.click_and_hold().move_by_offset(120, -30).release().perform()
    assert browser.execute_script(edges) == "1 2\n2 3\n3 1"
    assert len(set(browser.execute_script(fills))) == 3, "and keeps its color"
    click(0, -80)  # on the edge between the first two
    assert browser.execute_script(edges) == "2 3\n3 1"
    assert browser.execute_script("return document.querySelectorAll('#canvas circle').length") == 3
    click(*corners[0])
    press(browser, "#graph [data-remove]")
    assert browser.execute_script(edges) == "2 3"


def test_edges_are_written_and_conflicts_shown(browser: Any, address: str) -> None:
    opened(browser, address)
    fill(browser, "#graph textarea", "a b\na c\na d\nb c\nb d\nc d\nlone\n")  # four nodes, all joined
    press(browser, "#graph [type=submit]")
    assert "None of 16 tries is valid" in finished(browser, "graph")
    shown = "return [document.querySelectorAll('#canvas circle').length, "
    shown += "document.querySelectorAll('#canvas .conflict').length]"
    assert browser.execute_script(shown) == [5, 1]
    closest = """
        const nodes = [...document.querySelectorAll('#canvas g')].map(g => g.transform.baseVal[0].matrix);
        const apart = (a, b) => Math.hypot(a.e - b.e, a.f - b.f);
        return Math.min(...nodes.flatMap((a, i) => nodes.slice(i + 1).map(b => apart(a, b))))"""
    assert browser.execute_script(closest) > 32, "no node covers another"
    listed = browser.execute_script("return document.querySelector('#graph .classes').textContent")
    assert all(name in listed for name in ("a", "b", "c", "d", "lone"))


def test_a_table_is_uploaded(browser: Any, address: str, tmp_path: Path) -> None:
    from selenium.webdriver.common.by import By

    opened(browser, address)
    file = tmp_path / "fruit <b>.csv"  # names and cells are text, whatever they hold
    file.write_text("color,taste\n" + "red,sweet\ngreen,sour\n" * 60 + "red,<i>sour</i>\n")
    browser.find_element(By.NAME, "file").send_keys(str(file))
    press(browser, "#table [type=submit]")
    assert "least likely of 121 rows" in finished(browser, "table", 120)
    cells = "return [...document.querySelectorAll('#table tbody tr:first-child td')].map(c => c.textContent)"
    found = browser.execute_script(cells)
    assert (found[0], found[2:]) == ("122", ["red", "<i>sour</i>"])
    assert browser.execute_script("return document.querySelector('#table tbody i') === null")
    assert browser.execute_script("return document.scrollingElement.scrollWidth <= innerWidth")


def test_the_example_shows_its_progress_and_can_be_stopped(browser: Any, address: str) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    opened(browser, address)
    press(browser, "#table [data-example]")
    moving = "return document.querySelector('#table progress').value > 0"
    WebDriverWait(browser, 60, 0.1).until(lambda driver: driver.execute_script(moving))
    press(browser, "#molecules [type=submit]")
    assert "The studio is learning a table" in finished(browser, "molecules")
    press(browser, "#table [data-stop]")
    assert finished(browser, "table", 60) == "Stopped."
    assert browser.execute_script("return document.querySelector('#table .progress').hidden")


def test_a_table_that_is_too_large_gets_an_answer(address: str) -> None:
    """Over a real connection, both where its length is told first and where it is not."""
    import http.client

    host = address.removeprefix("http://").rstrip("/")

    def pieces() -> Iterator[bytes]:
        yield from (b" " * 100_000 for _ in range(60))

    for body in (b" " * 6_000_000, pieces()):
        connection = http.client.HTTPConnection(host, timeout=60)
        connection.putrequest("POST", "/api/table?name=a.csv")
        if isinstance(body, bytes):  # only the head: what is too long need not be sent
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders()
        else:
            connection.putheader("Transfer-Encoding", "chunked")
            connection.endheaders(body, encode_chunked=True)
        answer = connection.getresponse()
        assert answer.status == 413
        assert answer.read() == b'{"problem": "That is more than 5 MB; send less."}'
        connection.close()


def test_a_text_is_continued(browser: Any, text_run: Path) -> None:
    with serving("--text", text_run) as address:
        opened(browser, address)
        fill(browser, "#text textarea", "The cat")
        fill(browser, "#text [name=symbols]", "20")
        press(browser, "#text [type=submit]")
        assert finished(browser, "text") == "Taken in lower case: T."
        written = browser.execute_script("return document.querySelector('#text blockquote').textContent")
        assert written.startswith("the cat")
        assert len(written) == len("the cat") + 20
