"""The command that serves the page to play with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from catnf.cli.base import Device, app, chosen_device, messages
from catnf.cli.numbers import within


@app.command()
def studio(
    port: Annotated[int, typer.Option(help="0 for any that is free.", callback=within(0, 65_535))] = 8642,
    text: Annotated[
        Path | None, typer.Option(help="Run's folder or file of a model of texts to continue with.")
    ] = None,
    browse: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    device: Device = "auto",
) -> None:
    """Serve a page to play with the models, on this computer only: molecules, colorings, texts, tables."""
    from catnf.studio import check_installed

    check_installed()
    from catnf.studio.app import Studio
    from catnf.studio.server import address, bind, serve

    rooms = Studio(text, chosen_device(device))
    listener = bind(port)
    url = address(listener)

    def ready() -> None:
        print(url, flush=True)
        messages.print("Open this address on this computer; Ctrl-C ends it.")
        if browse:
            import webbrowser

            webbrowser.open(url)

    serve(rooms, listener, ready)
