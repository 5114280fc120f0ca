"""Negative log likelihoods for regression."""

from tfp_refine.losses.gaussian_loss import GaussianLoss
from tfp_refine.losses.gaussian_nll import GaussianNLL
from tfp_refine.losses.heteroscedastic_gaussian_nll import (
    HeteroscedasticGaussianNLL,
)

__all__ = ["GaussianLoss", "GaussianNLL", "HeteroscedasticGaussianNLL"]
