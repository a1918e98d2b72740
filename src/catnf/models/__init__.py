"""How the parts make a model."""

from catnf.models.categorical_flow import CategoricalFlow, FlowInRounds
from catnf.models.model import Bound, Model

__all__ = ["Bound", "CategoricalFlow", "FlowInRounds", "Model"]
