"""Conditioners: ordinary networks that turn kept latents and a context into parameters."""

from catnf.nets.channels import ChannelHeads
from catnf.nets.columns import ColumnTransformer
from catnf.nets.gat import GraphAttention
from catnf.nets.lexical import LexicalNetwork, LikelihoodHeads
from catnf.nets.lexicon import Lexicon
from catnf.nets.linear import AlignedLinear, lookup, select
from catnf.nets.linear_recurrence import LinearRecurrence
from catnf.nets.mlp import MLP
from catnf.nets.network import Network
from catnf.nets.recurrent import BidirectionalLSTM, CausalLSTM
from catnf.nets.text_rounds import ParallelTransformer
from catnf.nets.text_transformer import CausalTransformer
from catnf.nets.transformer import SetTransformer

__all__ = [
    "MLP",
    "AlignedLinear",
    "BidirectionalLSTM",
    "CausalLSTM",
    "CausalTransformer",
    "ChannelHeads",
    "ColumnTransformer",
    "GraphAttention",
    "LexicalNetwork",
    "Lexicon",
    "LikelihoodHeads",
    "LinearRecurrence",
    "Network",
    "ParallelTransformer",
    "SetTransformer",
    "lookup",
    "select",
]
