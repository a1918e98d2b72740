"""What stands before the page: requests of bounded size, from this computer and from no other page.

A page of another site may know the address of the studio. Its requests carry its own `Origin`; and where its
name was made to point to this computer (DNS rebinding), they carry that name as their `Host`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from catnf.studio.limits import Limits

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

UPLOAD = "/api/table"
"""The address that tables are sent to, and the only one that takes large requests."""

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
"""Sent with every answer: nothing is fetched from elsewhere, framed, or kept."""

_HOST = re.compile(r"(127\.0\.0\.1|localhost)(:\d{1,5})?", re.IGNORECASE)
_PATIENCE = 30.0  # seconds for a whole request to arrive
_DRAINED = 4  # times the limit that is read and dropped: who is still sending does not see an answer


class Guard:
    """Lets requests through that come from the studio's own page or from no page at all.

    Args:
        app: what answers them.
        limits: of their size.
    """

    def __init__(self, app: App, limits: Limits) -> None:
        self.app, self.limits = app, limits

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1008})
        problem = refusal(scope["path"], scope["headers"])
        if problem is not None:
            return await _answer(send, 403, problem)
        most = self.limits.upload if scope["path"] == UPLOAD else self.limits.request
        too_large = f"That is more than {size(most)}; send less."
        if _announced(scope["headers"]) > most:
            return await _answer(send, 413, too_large)
        try:
            body = await asyncio.wait_for(_read(receive, most), _PATIENCE)
        except TimeoutError:
            return await _answer(send, 408, "The request did not arrive in time; send it again.")
        except ConnectionResetError:
            return  # nobody waits for an answer, and half a request is none
        if body is None:
            return await _answer(send, 413, too_large)
        return await self.app(scope, _replayed(body, receive), _with_headers(send))


def refusal(path: str, headers: list[tuple[bytes, bytes]]) -> str | None:
    """Why a request is not answered; `None` where it is."""

    def values(name: bytes) -> list[str]:
        return [value.decode("latin-1") for key, value in headers if key.lower() == name]

    hosts, origins, sites = values(b"host"), values(b"origin"), values(b"sec-fetch-site")
    if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
        return "The studio answers at 127.0.0.1 only; open the address that catnf studio printed."
    own = f"http://{hosts[0]}".lower()
    foreign = any(origin.lower() != own for origin in origins)
    # Anyone may link to the page itself, which does nothing until it is used.
    foreign |= path.startswith("/api") and any(site not in ("same-origin", "none") for site in sites)
    return "The studio answers its own page only; open it in a window of its own." if foreign else None


def size(count: int) -> str:
    """Bytes in words.

    >>> size(5_000_000), size(200_000)
    ('5 MB', '200 kB')
    """
    return f"{count / 1e6:g} MB" if count >= 1_000_000 else f"{count / 1e3:g} kB"


def _announced(headers: list[tuple[bytes, bytes]]) -> int:
    """The length that a request says it has; 0 where it does not say."""
    told = [value for key, value in headers if key.lower() == b"content-length" and value.isdigit()]
    return max((int(value) for value in told), default=0)


async def _read(receive: Receive, most: int) -> bytes | None:
    """The body of a request; `None` where it is longer than `most` bytes, of which no more are kept."""
    parts: list[bytes] = []
    length, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError
        length += len(message.get("body", b""))
        more = message.get("more_body", False)
        if length <= most:
            parts.append(message.get("body", b""))
        elif length > _DRAINED * most:
            return None
    return b"".join(parts) if length <= most else None


def _replayed(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _with_headers(send: Send) -> Send:
    added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def pass_on(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [pair for pair in message.get("headers", []) if pair[0].decode().lower() not in HEADERS]
            message = {**message, "headers": [*kept, *added]}
        await send(message)

    return pass_on


async def _answer(send: Send, status: int, sentence: str) -> None:
    body = json.dumps({"problem": sentence}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),  # what is left of a request that is too long is not read
    ]
    send = _with_headers(send)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
