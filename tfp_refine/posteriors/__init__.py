"""Posteriors: distributions over one vector of a model's weights."""

from tfp_refine.posteriors import covariances
from tfp_refine.posteriors.ensemble import EnsemblePosterior
from tfp_refine.posteriors.ensemble import MixturePosterior
from tfp_refine.posteriors.ensemble import concatenate
from tfp_refine.posteriors.fast_gradient_sign import fast_gradient_sign
from tfp_refine.posteriors.flow import FlowPosterior
from tfp_refine.posteriors.functions import predict
from tfp_refine.posteriors.functions import predict_proba
from tfp_refine.posteriors.functions import summarize
from tfp_refine.posteriors.gaussian import GaussianPosterior
from tfp_refine.posteriors.protocol import Posterior
from tfp_refine.posteriors.protocol import load_posterior
from tfp_refine.posteriors.samples import SamplePosterior
from tfp_refine.posteriors.summary import Summary
from tfp_refine.posteriors.variational import VariationalPosterior
from tfp_refine.posteriors.variational import posterior

__all__ = [
    "EnsemblePosterior",
    "FlowPosterior",
    "GaussianPosterior",
    "MixturePosterior",
    "Posterior",
    "SamplePosterior",
    "Summary",
    "VariationalPosterior",
    "concatenate",
    "covariances",
    "fast_gradient_sign",
    "load_posterior",
    "posterior",
    "predict",
    "predict_proba",
    "summarize",
]
