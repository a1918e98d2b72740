"""The command line: parse, call, print."""

import gc

# Thousands of modules are to be kept: looking for garbage among them takes half a second.
gc.disable()

from catnf.cli import (  # noqa: E402
    coloring,
    evaluation,
    models,
    molecules,
    reproduction,
    scoring,
    studio,
    tables,
    text,
)
from catnf.cli.base import app, main  # noqa: E402

gc.freeze()
gc.enable()

__all__ = [
    "app",
    "coloring",
    "evaluation",
    "main",
    "models",
    "molecules",
    "reproduction",
    "scoring",
    "studio",
    "tables",
    "text",
]
