"""Refinement of a mean-field posterior through auxiliary variables."""

from tfp_refine.refinement.adaptive_steps import AdaptiveSteps
from tfp_refine.refinement.callback import RefinementCallback
from tfp_refine.refinement.elbo import elbo
from tfp_refine.refinement.ensemble import RefinedEnsemble
from tfp_refine.refinement.refine import refine

__all__ = [
    "AdaptiveSteps",
    "RefinedEnsemble",
    "RefinementCallback",
    "elbo",
    "refine",
]
