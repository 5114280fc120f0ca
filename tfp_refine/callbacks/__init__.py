"""Keras callbacks for the training of posteriors."""

from tfp_refine.callbacks.elbo_logger import ELBOLogger
from tfp_refine.callbacks.kl_annealing import KLAnnealing
from tfp_refine.callbacks.kl_annealing import linear_warmup
from tfp_refine.callbacks.prior_variance_optimization import (
    PriorVarianceOptimization,
)

__all__ = [
    "ELBOLogger",
    "KLAnnealing",
    "PriorVarianceOptimization",
    "linear_warmup",
]
