"""Models that flows are compared with, on the same contract."""

from catnf.models.baselines.autoregressive import AutoregressiveColoring
from catnf.models.baselines.discrete_flow import DiscreteFlow
from catnf.models.baselines.graph_vae import GraphVAE
from catnf.models.baselines.language_model import LanguageModel

__all__ = ["AutoregressiveColoring", "DiscreteFlow", "GraphVAE", "LanguageModel"]
