"""Combinations of methods, each as one function."""

from tfp_refine.recipes.narrow import narrow_posteriors
from tfp_refine.recipes.refined_deep_ensemble import refined_deep_ensemble

__all__ = [
    "narrow_posteriors",
    "refined_deep_ensemble",
]
