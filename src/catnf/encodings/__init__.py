"""Categories to latents and back."""

from catnf.encodings.columns import (
    ColumnDequantizationEncoding,
    ColumnJointEncoding,
    ColumnMixtureEncoding,
)
from catnf.encodings.dequantization import DequantizationEncoding
from catnf.encodings.encoding import Encoded, Encoding
from catnf.encodings.joint import JointEncoding
from catnf.encodings.linear_flow import LinearFlowEncoding
from catnf.encodings.mixture import MixtureEncoding
from catnf.encodings.spaced import SpacedEncoding
from catnf.encodings.variational import VariationalEncoding
from catnf.encodings.words import WordEncoding

__all__ = [
    "ColumnDequantizationEncoding",
    "ColumnJointEncoding",
    "ColumnMixtureEncoding",
    "DequantizationEncoding",
    "Encoded",
    "Encoding",
    "JointEncoding",
    "LinearFlowEncoding",
    "MixtureEncoding",
    "SpacedEncoding",
    "VariationalEncoding",
    "WordEncoding",
]
