"""Models that catnf is compared with, on the same contract."""

from catnf.models.baselines.discrete_flow import DiscreteFlow

__all__ = ["DiscreteFlow"]
