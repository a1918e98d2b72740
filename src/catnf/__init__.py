"""Normalizing flows on categorical data."""

__version__ = "0.1.0"
