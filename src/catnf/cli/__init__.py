"""The command line: parse, call, print."""

import gc

# Thousands of modules are to be kept: looking for garbage among them takes half a second.
gc.disable()

from catnf.cli import coloring, evaluation, models, molecules, scoring, tables, text  # noqa: E402
from catnf.cli.base import app, main  # noqa: E402

gc.freeze()
gc.enable()

__all__ = ["app", "coloring", "evaluation", "main", "models", "molecules", "scoring", "tables", "text"]
