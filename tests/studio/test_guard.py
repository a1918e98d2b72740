"""Other pages cannot drive the studio, and no request is larger than it may be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("fastapi", reason="needs the extra studio")

from fastapi.testclient import TestClient

from catnf.studio.guard import HEADERS, refusal

HOST = "127.0.0.1:8642"
BODY = {"nodes": ["a"], "edges": []}
ALLOWED: list[dict[str, str]] = [
    {},
    {"host": "localhost:8642"},
    {"host": "LOCALHOST"},
    {"origin": f"http://{HOST}"},
    {"origin": f"http://{HOST}", "sec-fetch-site": "same-origin"},
    {"sec-fetch-site": "none"},
]
REFUSED: list[dict[str, str]] = [
    {"host": "evil.example"},
    {"host": "evil.example:8642", "origin": "http://evil.example:8642"},  # rebound to this computer
    {"host": "127.0.0.1.evil.example"},
    {"host": "127.0.0.1@evil.example"},
    {"host": ""},
    {"host": "0.0.0.0:8642"},
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"origin": f"https://{HOST}"},
    {"origin": "http://127.0.0.1:1234"},  # another program's page on this computer
    {"origin": "http://localhost:8642"},  # the same program by another name
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
]


@pytest.mark.parametrize("headers", ALLOWED, ids=str)
def test_own_requests_are_answered(client: TestClient, headers: dict[str, str]) -> None:
    assert client.post("/api/color", json=BODY, headers=headers).status_code == 200


@pytest.mark.parametrize("headers", REFUSED, ids=str)
def test_foreign_requests_are_refused(client: TestClient, headers: dict[str, str]) -> None:
    for ask in (
        lambda: client.post("/api/color", json=BODY, headers=headers),
        lambda: client.get("/api/about", headers=headers),
        lambda: client.options("/api/color", headers={**headers, "access-control-request-method": "POST"}),
    ):
        response = ask()
        assert response.status_code == 403
        assert response.json()["problem"].endswith(".")
        assert not any(name.startswith("access-control") for name in response.headers)


def test_links_to_the_page_work(client: TestClient) -> None:
    assert client.get("/", headers={"sec-fetch-site": "cross-site"}).status_code == 200


def test_a_request_has_one_host() -> None:
    one, other = (b"host", HOST.encode()), (b"host", b"evil.example")
    assert refusal("/", [one]) is None
    assert refusal("/", [one, other]) is not None
    assert refusal("/", []) is not None


@given(st.text(max_size=40))
def test_only_two_names_are_this_computer(host: str) -> None:
    name = host.rsplit(":", 1)[0].lower()
    if name not in ("127.0.0.1", "localhost"):
        assert refusal("/", [(b"host", host.encode("latin-1", "replace"))]) is not None


@pytest.mark.parametrize("path", ["/", "/page/main.js", "/api/about", "/nothing"])
def test_every_answer_has_the_headers(client: TestClient, path: str) -> None:
    for host in (HOST, "evil.example"):
        answer = client.get(path, headers={"host": host})
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS


def test_large_requests_are_refused(client: TestClient) -> None:
    def pieces() -> Any:  # of no length that is told before
        yield from (b" " * 50_000 for _ in range(5))

    for content in (b" " * 200_001, pieces()):
        response = client.post("/api/color", content=content, headers={"content-type": "application/json"})
        assert response.status_code == 413
        assert response.json()["problem"] == "That is more than 200 kB; send less."


def test_no_websockets(client: TestClient) -> None:
    from starlette.websockets import WebSocketDisconnect

    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/"):
        pass
