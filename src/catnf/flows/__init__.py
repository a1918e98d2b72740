"""Transforms, masks and the base distribution: pure torch, one idea a file."""

from catnf.flows.actnorm import ActNorm, ConditionalActNorm
from catnf.flows.autoregressive import AutoregressiveMixture, ChannelStep
from catnf.flows.base import Logistic
from catnf.flows.category_mixture import CategoryMixture
from catnf.flows.category_rounds import CategoryRounds
from catnf.flows.coupling import AffineCoupling, Coupling, MixtureCoupling
from catnf.flows.linear import InvertibleLinear
from catnf.flows.masks import ChannelMask, ChessMask, Mask
from catnf.flows.mixture import Mixture, mixture_logit, mixture_logit_inverse
from catnf.flows.roots import Root, bracketed_newton
from catnf.flows.rounds import Rounds, RoundStep
from catnf.flows.step import FlowStep, affine_steps, mixture_steps
from catnf.flows.transform import Sequential, Transform

__all__ = [
    "ActNorm",
    "AffineCoupling",
    "AutoregressiveMixture",
    "CategoryMixture",
    "CategoryRounds",
    "ChannelMask",
    "ChannelStep",
    "ChessMask",
    "ConditionalActNorm",
    "Coupling",
    "FlowStep",
    "InvertibleLinear",
    "Logistic",
    "Mask",
    "Mixture",
    "MixtureCoupling",
    "Root",
    "RoundStep",
    "Rounds",
    "Sequential",
    "Transform",
    "affine_steps",
    "bracketed_newton",
    "mixture_logit",
    "mixture_logit_inverse",
    "mixture_steps",
]
