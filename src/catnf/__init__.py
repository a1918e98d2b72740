"""Normalizing flows on categorical data."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from catnf.coloring import color_graph
    from catnf.fitted import FittedModel, bundled_names, load
    from catnf.interpolation import interpolate_molecules
    from catnf.molecules import sample_molecules, score_molecules
    from catnf.text import sample_texts

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
]


def __getattr__(name: str) -> Any:
    # Imported when first used: the command line sets up its threads before torch is loaded.
    if name in ("FittedModel", "bundled_names", "load"):
        from catnf import fitted

        return getattr(fitted, name)
    if name == "color_graph":
        from catnf.coloring import color_graph

        return color_graph
    if name in ("sample_molecules", "score_molecules"):
        from catnf import molecules

        return getattr(molecules, name)
    if name == "sample_texts":
        from catnf.text import sample_texts

        return sample_texts
    if name == "interpolate_molecules":
        from catnf.interpolation import interpolate_molecules

        return interpolate_molecules
    raise AttributeError(f"module 'catnf' has no attribute {name!r}")
