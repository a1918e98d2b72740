"""Conditioners: ordinary networks that turn kept latents and a context into parameters."""

from catnf.nets.columns import ColumnTransformer
from catnf.nets.gat import GraphAttention
from catnf.nets.linear import AlignedLinear, lookup, select
from catnf.nets.mlp import MLP
from catnf.nets.network import Network
from catnf.nets.transformer import SetTransformer

__all__ = [
    "MLP",
    "AlignedLinear",
    "ColumnTransformer",
    "GraphAttention",
    "Network",
    "SetTransformer",
    "lookup",
    "select",
]
