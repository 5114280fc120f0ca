"""KL divergences of weight posteriors from their priors."""

from tfp_refine.regularizers.empirical_bayes_kl import EmpiricalBayesKL
from tfp_refine.regularizers.gaussian_kl import GaussianKL
from tfp_refine.regularizers.kl_regularizer import KLRegularizer
from tfp_refine.regularizers.lookup import get
from tfp_refine.regularizers.lookup import is_kl

__all__ = ["EmpiricalBayesKL", "GaussianKL", "KLRegularizer", "get", "is_kl"]
