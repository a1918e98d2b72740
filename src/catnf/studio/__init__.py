"""A local page to play with the models: molecules, colorings, texts, tables."""

from __future__ import annotations

from importlib.util import find_spec

from catnf.errors import MissingDependencyError


def check_installed() -> None:
    """Refuse in one sentence where the packages that serve the page are missing."""
    for package in ("fastapi", "uvicorn"):
        if find_spec(package) is None:
            raise MissingDependencyError(
                f"The studio needs {package}, which is not installed; run pip install 'catnf[studio]'."
            )
