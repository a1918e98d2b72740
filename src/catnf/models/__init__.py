"""How the parts make a model."""

from catnf.models.categorical_flow import CategoricalFlow, FlowInRounds
from catnf.models.model import Bound, Model
from catnf.models.text_flow import TextFlow

__all__ = ["Bound", "CategoricalFlow", "FlowInRounds", "Model", "TextFlow"]
