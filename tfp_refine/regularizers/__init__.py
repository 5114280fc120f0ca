"""KL divergences of weight posteriors from their priors."""

from tfp_refine.regularizers.collapsed_mean_kl import CollapsedMeanKL
from tfp_refine.regularizers.collapsed_mean_variance_kl import (
    CollapsedMeanVarianceKL,
)
from tfp_refine.regularizers.collapsed_mean_variance_kl import (
    CollapsedVarianceKL,
)
from tfp_refine.regularizers.empirical_bayes_kl import EmpiricalBayesKL
from tfp_refine.regularizers.gaussian_kl import GaussianKL
from tfp_refine.regularizers.kl_regularizer import KLRegularizer
from tfp_refine.regularizers.kl_regularizer import PriorSite
from tfp_refine.regularizers.log_uniform_kl import LogUniformKL
from tfp_refine.regularizers.lookup import get
from tfp_refine.regularizers.lookup import is_kl
from tfp_refine.regularizers.scale_mixture_kl import ScaleMixtureKL

__all__ = [
    "CollapsedMeanKL",
    "CollapsedMeanVarianceKL",
    "CollapsedVarianceKL",
    "EmpiricalBayesKL",
    "GaussianKL",
    "KLRegularizer",
    "LogUniformKL",
    "PriorSite",
    "ScaleMixtureKL",
    "get",
    "is_kl",
]
