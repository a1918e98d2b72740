"""Normalizing flows on categorical data."""

from catnf.fitted import FittedModel, bundled_names, load

__version__ = "0.1.0"

__all__ = ["FittedModel", "__version__", "bundled_names", "load"]
