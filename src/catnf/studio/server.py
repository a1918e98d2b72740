"""Serving the page on this computer, to this computer."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

from catnf.errors import InputError
from catnf.studio.app import Studio, make_app

HOST = "127.0.0.1"


def bind(port: int) -> socket.socket:
    """A socket at which only this computer is heard; port 0 is any free one."""
    if not 0 <= port <= 65535:
        raise InputError(f"port is {port}; give one from 0, for any that is free, to 65535.")
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except OSError as error:
        listener.close()
        reason = (error.strerror or str(error)).lower()
        raise InputError(
            f"Port {port} cannot be used ({reason}); choose another with --port, or 0 for any that is free."
        ) from error
    return listener


def address(listener: socket.socket) -> str:
    """What to open in a browser."""
    return f"http://{HOST}:{listener.getsockname()[1]}/"


def serve(studio: Studio, listener: socket.socket, ready: Callable[[], None] = lambda: None) -> None:
    """Answer requests until Ctrl-C; `ready` is called as soon as requests are heard."""
    listener.listen(64)  # what comes before the server runs waits here
    config = uvicorn.Config(
        make_app(studio),
        log_level="warning",
        access_log=False,
        ws="none",
        lifespan="off",
        limit_concurrency=64,
        timeout_graceful_shutdown=5,
    )
    ready()
    try:
        uvicorn.Server(config).run(sockets=[listener])
    except KeyboardInterrupt:
        pass
    finally:
        studio.desk.close()
        listener.close()
