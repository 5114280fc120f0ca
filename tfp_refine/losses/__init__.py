"""Negative log likelihoods for regression."""

from tfp_refine.losses.gaussian import GaussianLoss
from tfp_refine.losses.gaussian import GaussianNLL
from tfp_refine.losses.gaussian import HeteroscedasticGaussianNLL

__all__ = ["GaussianLoss", "GaussianNLL", "HeteroscedasticGaussianNLL"]
