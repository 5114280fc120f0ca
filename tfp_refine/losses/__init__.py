"""Negative log likelihoods, in nats, and their predictive distributions."""

from tfp_refine.losses.classes import BernoulliNLL
from tfp_refine.losses.classes import CategoricalNLL
from tfp_refine.losses.classes import OrdinalNLL
from tfp_refine.losses.counts import NegativeBinomialNLL
from tfp_refine.losses.counts import PoissonNLL
from tfp_refine.losses.gaussian import GaussianLoss
from tfp_refine.losses.gaussian import GaussianNLL
from tfp_refine.losses.gaussian import HeteroscedasticGaussianNLL
from tfp_refine.losses.likelihood import LikelihoodLoss
from tfp_refine.losses.student_t import StudentTNLL

__all__ = [
    "BernoulliNLL",
    "CategoricalNLL",
    "GaussianLoss",
    "GaussianNLL",
    "HeteroscedasticGaussianNLL",
    "LikelihoodLoss",
    "NegativeBinomialNLL",
    "OrdinalNLL",
    "PoissonNLL",
    "StudentTNLL",
]
