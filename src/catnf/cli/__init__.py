"""The command line: parse, call, print."""

from catnf.cli import coloring, evaluation, models, molecules, scoring, tables, text
from catnf.cli.base import app, main

__all__ = ["app", "coloring", "evaluation", "main", "models", "molecules", "scoring", "tables", "text"]
