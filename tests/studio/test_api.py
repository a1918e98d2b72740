"""Everything that can be asked of the studio, with the bundled models, and what it refuses."""

from __future__ import annotations

import base64
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("fastapi", reason="needs the extra studio")

import networkx as nx
from fastapi.testclient import TestClient

from catnf.molecules import DEFAULT_MODEL, sample_molecules
from catnf.studio.limits import Limits
from catnf.studio.tables import find_anomalies, read_upload

ROWS = "color,taste\n" + "red,sweet\ngreen,sour\n" * 30 + "red,sour\n"


def picture(address: str) -> bytes:
    kind, data = address.split(",", 1)
    assert kind == "data:image/png;base64"
    return base64.b64decode(data)


def ask(client: TestClient, part: str, **values: Any) -> dict[str, Any]:
    response = client.post(f"/api/{part}", json=values)
    assert response.status_code == 200, response.text
    return dict(response.json())


def upload(client: TestClient, content: str | bytes, name: str = "mine.csv") -> dict[str, Any]:
    """Send a table and wait for what comes of it."""
    begun = client.post("/api/table", params={"name": name}, content=content)
    assert begun.status_code == 202, begun.text
    told = dict(begun.json())
    while told["state"] == "running":
        time.sleep(0.05)
        now = client.get(f"/api/table/{told['id']}").json()
        assert told["share"] <= now["share"] <= 1
        told = now
    return told


def test_the_page_and_what_it_loads(client: TestClient) -> None:
    page = client.get("/")
    assert page.status_code == 200
    assert "catnf studio" in page.text
    for name in ("style.css", "main.js", "common.js", "graph.js", "layout.js", "molecules.js", "table.js"):
        assert client.get(f"/page/{name}").status_code == 200
    about = client.get("/api/about").json()
    assert DEFAULT_MODEL in about["molecules"]
    assert about["limits"]["upload"] == 5_000_000


def test_molecules_are_those_of_the_library(client: TestClient) -> None:
    told = ask(client, "molecules", model=DEFAULT_MODEL, count=3, temperature=0.8, seed=5)
    drawn = sample_molecules(3, seed=5, temperature=0.8)
    assert [one["smiles"] for one in told["molecules"]] == [one.smiles for one in drawn]
    assert told["valid"] == sum(one.valid for one in drawn)
    assert all(picture(one["picture"]).startswith(b"\x89PNG") for one in told["molecules"])
    assert all(math.isfinite(one["bits"]) for one in told["molecules"])


def test_a_walk_has_its_ends(client: TestClient) -> None:
    told = ask(client, "path", model=DEFAULT_MODEL, first=" CCO", second="c1ccccc1N", steps=4)
    steps = told["steps"]
    assert [step["share"] for step in steps] == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert (steps[0]["smiles"], steps[-1]["smiles"]) == ("CCO", "Nc1ccccc1")
    assert all(step["reached"] for step in steps)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(nodes=st.integers(1, 12), density=st.floats(0, 1), seed=st.integers(0, 1000))
def test_every_graph_is_colored(client: TestClient, nodes: int, density: float, seed: int) -> None:
    graph = nx.relabel_nodes(nx.gnp_random_graph(nodes, density, seed=seed), str)
    edges = [list(edge) for edge in graph.edges]
    told = ask(client, "color", nodes=list(graph), edges=edges, samples=4)
    colors = told["colors"]
    assert set(colors) == set(graph)
    assert set(colors.values()) <= {0, 1, 2}
    clashes = {frozenset(edge) for edge in edges if colors[edge[0]] == colors[edge[1]]}
    assert {frozenset(edge) for edge in told["conflicts"]} == clashes
    assert (told["valid"] > 0) == (not clashes)


def test_unusual_rows_come_first_and_nothing_is_left(
    make_client: Callable[..., TestClient], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where no other studio leaves anything
    client = make_client(limits=Limits(seconds=120))  # it ends by itself before, however slow the machine
    told = upload(client, ROWS)
    assert told["state"] == "done", told
    found = told["result"]
    assert found["columns"] == ["color", "taste"]
    assert found["rows"][0]["cells"] == ["red", "sour"]
    assert found["rows"][0]["line"] == 62
    scores = [row["log_likelihood"] for row in found["rows"]]
    assert scores == sorted(scores)
    assert (found["total"], len(scores)) == (61, 25)
    assert list(tmp_path.iterdir()) == []


def test_too_little_learning_is_told(make_client: Callable[..., TestClient]) -> None:
    found = upload(make_client(limits=Limits(seconds=0.01)), ROWS)["result"]
    assert found["steps"] < 50
    assert any(f"Only {found['steps']} steps" in note for note in found["notes"])


def test_gaps_constants_and_tabs(client: TestClient) -> None:
    lines = ["a\tb\tc", *(f"{n % 3}\t{'' if n % 4 else n / 7}\talways" for n in range(50))]
    found = upload(client, "\n".join(lines), "mine.tsv")["result"]
    assert found["kinds"][2] == "constant"
    assert any("'c'" in note for note in found["notes"])
    assert any(row["cells"][1] == "" for row in found["rows"])


def test_a_table_can_be_stopped_and_blocks_the_rest(make_client: Callable[..., TestClient]) -> None:
    client = make_client(limits=Limits(seconds=60))
    lines = ["a,b,c", *(f"{n % 7},{n % 11},{n * 0.37 % 1}" for n in range(2000))]
    begun = client.post("/api/table", params={"name": "a.csv"}, content="\n".join(lines))
    job = begun.json()["id"]
    for part, body in {
        "molecules": {"model": DEFAULT_MODEL, "count": 1},
        "color": {"nodes": ["a"], "edges": []},
    }.items():
        busy = client.post(f"/api/{part}", json=body)
        assert busy.status_code == 409
        assert "one thing at a time" in busy.json()["problem"]
    assert client.post("/api/table", params={"name": "b.csv"}, content=ROWS).status_code == 409
    assert client.delete(f"/api/table/{job}").status_code == 200
    deadline = time.monotonic() + 30
    while (state := client.get(f"/api/table/{job}").json()["state"]) == "running":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert state == "stopped"
    assert ask(client, "color", nodes=["a"], edges=[])["valid"] == 16, "it goes on with other things"


GRAPH: dict[str, Any] = {"nodes": ["a", "b"], "edges": [["a", "b"]]}
MOLECULES = {"model": DEFAULT_MODEL}
PATH = {**MOLECULES, "first": "CCO", "second": "CCN"}


@pytest.mark.parametrize(
    ("part", "values", "fragment"),
    [
        ("molecules", {**MOLECULES, "count": 41}, "count is 41; give a number from 1 to 40."),
        ("molecules", {**MOLECULES, "count": 0}, "count is 0"),
        ("molecules", {**MOLECULES, "count": "many"}, "count is 'many'; input should be a valid integer"),
        ("molecules", {**MOLECULES, "temperature": 0}, "temperature is 0.0; give a number from 0.1 to 2.0."),
        ("molecules", {**MOLECULES, "seed": -1}, "seed is -1"),
        ("molecules", {"model": "/etc/passwd"}, "'/etc/passwd' is no bundled model"),
        ("molecules", {}, "model is missing"),
        ("path", {**PATH, "first": "  "}, "The first molecule is empty"),
        ("path", {**PATH, "second": "C" * 201}, "The second molecule has 201 characters"),
        ("path", {**PATH, "first": "hello"}, "'hello' cannot be used"),
        ("path", {**PATH, "steps": 1}, "steps is 1; give a number from 2 to 12."),
        ("path", {**PATH, "steps": 13}, "steps is 13"),
        ("color", {"nodes": [], "edges": []}, "no nodes"),
        ("color", {"nodes": [str(n) for n in range(101)], "edges": []}, "has 101 nodes; give at most 100"),
        ("color", {**GRAPH, "edges": [["a", "b"]] * 1001}, "has 1,001 edges"),
        ("color", {**GRAPH, "edges": [["a", "c"]]}, "leads to 'c', which is no node"),
        ("color", {**GRAPH, "edges": [["a", "a"]]}, "'a' has an edge to itself"),
        ("color", {**GRAPH, "nodes": ["a", "a"]}, "'a' is there twice"),
        ("color", {**GRAPH, "nodes": ["a", "x" * 13]}, "cannot name a node"),
        ("color", {**GRAPH, "edges": [["a", "b", "c"]]}, "edges.0"),
        ("color", {**GRAPH, "samples": 33}, "samples is 33"),
        ("text", {"prompt": " "}, "There is no text to continue"),
    ],
)
def test_refusals_are_one_sentence(
    client: TestClient, part: str, values: dict[str, Any], fragment: str
) -> None:
    response = client.post(f"/api/{part}", json=values)
    assert response.status_code == 422
    problem = response.json()["problem"]
    assert fragment in problem
    assert problem.endswith(".")
    assert "\n" not in problem


@pytest.mark.parametrize(
    ("name", "content", "status", "fragment"),
    [
        ("a.csv", b"", 422, "a.csv is empty"),
        ("a.csv", b"\xff\xfe\x00", 422, "a.csv is not UTF-8 text"),
        ("a.csv", b"a,b\n1,2\n", 422, "a.csv has 1 rows; give 2 to 10,000"),
        ("a.csv", b"a,a\n1,2\n3,4\n", 422, "has the column 'a' twice"),
        ("a.csv", b"a\n" + b"1\n" * 10_001, 422, "has 10,001 rows"),
        ("a.csv", b"a\n" + b"1\n" * 50_000, 422, "has 50,001 lines"),
        ("a.csv", b",".join(b"%d" % n for n in range(900)), 422, "900 columns; give at most 10,000 rows"),
        ("a.csv", b"a" * 5_000_001, 413, "more than 5 MB"),
        ("a.parquet", b"PAR1", 422, "'a.parquet' is no table; give a file that ends in .csv or .tsv."),
        ("a.csv.gz", b"\x1f\x8b", 422, "is no table"),
        ("../../etc/passwd", b"a", 422, "is no table"),
    ],
    ids=lambda value: str(value)[:12],
)
def test_tables_that_are_refused(
    client: TestClient, name: str, content: bytes, status: int, fragment: str
) -> None:
    response = client.post("/api/table", params={"name": name}, content=content)
    assert response.status_code == status, response.text
    problem = response.json()["problem"]
    assert fragment in problem
    assert "/tmp" not in problem
    assert ask(client, "color", nodes=["a"], edges=[])["valid"], "a refusal leaves the desk free"


def test_rows_are_named_by_their_lines_and_cells_shown_in_full() -> None:
    content = b'a,n,x\nu,1,2.5\n\n"v\nw",,1234567.8\n' + b"y,3,\n" * 8
    frame, lines = read_upload(content, "a.csv", Limits())
    assert lines[:4] == [2, 4, 6, 7]
    told = find_anomalies(frame, lines, Limits(), lambda share, what: None)
    (found,) = (row for row in told["rows"] if row["cells"][0].startswith("v"))
    assert found["line"] == 4
    assert found["cells"] == ["v\nw", "", "1234567.8"]


def test_any_ends_of_lines() -> None:
    for end in (b"\n", b"\r\n", b"\r"):
        frame, lines = read_upload(end.join([b"a,b", *[b"1,x"] * 100]), "a.csv", Limits())
        assert frame.shape == (100, 2)
        assert lines == list(range(2, 102))


def test_wide_tables_are_refused(client: TestClient) -> None:
    line = ",".join(str(n) for n in range(41))
    response = client.post("/api/table", params={"name": "a.csv"}, content=f"{line}\n" * 3)
    assert "has 41 columns; give at most 40" in response.json()["problem"]


@pytest.mark.parametrize("method", ["get", "delete"])
def test_unknown_tables_and_addresses(client: TestClient, method: str) -> None:
    response = getattr(client, method)("/api/table/nothing")
    assert response.status_code == 404
    assert "upload it again" in response.json()["problem"]
    assert client.get("/page/../app.py").status_code == 404
    assert client.get("/page/%2e%2e/app.py").status_code == 404
    assert client.get("/docs").status_code == 404


@pytest.mark.parametrize("body", [b"{", b"[1]", b"null", b'{"count": NaN, "model": "a"}'])
def test_what_is_no_json_object(client: TestClient, body: bytes) -> None:
    response = client.post("/api/molecules", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 422
    assert response.json()["problem"].endswith(".")


def test_texts_are_continued(make_client: Callable[..., TestClient], text_run: Path) -> None:
    client = make_client(text_run)
    assert client.get("/api/about").json()["text"] == str(text_run)
    told = ask(client, "text", prompt="The cat", symbols=20, seed=3)
    assert told["text"].startswith("the cat")
    assert len(told["text"]) == len("the cat") + 20
    assert told["notes"] == ["Taken in lower case: T."]
    assert ask(client, "text", prompt="The cat", symbols=20, seed=3) == told
    for values, fragment in (
        ({"prompt": " "}, "no text to continue"),
        ({"prompt": "a" * 501}, "has 501 characters"),
        ({"prompt": "a", "symbols": 501}, "symbols is 501"),
    ):
        response = client.post("/api/text", json=values)
        assert response.status_code == 422
        assert fragment in response.json()["problem"]
