"""Normalizing flows on categorical data."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from catnf.coloring import color_graph
    from catnf.fitted import FittedModel, bundled_names, load
    from catnf.interpolation import interpolate_molecules
    from catnf.molecules import sample_molecules, score_molecules
    from catnf.text import sample_texts, score_texts

__version__ = "0.1.0"

__all__ = [
    "FittedModel",
    "__version__",
    "bundled_names",
    "color_graph",
    "interpolate_molecules",
    "load",
    "sample_molecules",
    "sample_texts",
    "score_molecules",
    "score_texts",
]


_MODULES = {
    "FittedModel": "catnf.fitted",
    "bundled_names": "catnf.fitted",
    "color_graph": "catnf.coloring",
    "interpolate_molecules": "catnf.interpolation",
    "load": "catnf.fitted",
    "sample_molecules": "catnf.molecules",
    "sample_texts": "catnf.text",
    "score_molecules": "catnf.molecules",
    "score_texts": "catnf.text",
}


def __getattr__(name: str) -> Any:
    # Imported when first used: the command line sets up its threads before torch is loaded.
    if name not in _MODULES:
        raise AttributeError(f"module 'catnf' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
