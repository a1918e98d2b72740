"""The command line: parse, call, print."""

from catnf.cli import coloring, models, molecules, scoring
from catnf.cli.base import app, main

__all__ = ["app", "coloring", "main", "models", "molecules", "scoring"]
