"""Posteriors of a trained network's weights: what they have in common."""

from tfp_refine.posteriors import likelihoods
from tfp_refine.posteriors import posterior_file
from tfp_refine.posteriors.all_layers import AllLayers
from tfp_refine.posteriors.last_layer import LastLayer
from tfp_refine.posteriors.log_joint import log_joint
from tfp_refine.posteriors.log_joint import log_prior
from tfp_refine.posteriors.weight_posterior import WeightPosterior
from tfp_refine.posteriors.weight_posterior import check_finite
from tfp_refine.posteriors.weight_posterior import take

__all__ = [
    "AllLayers",
    "LastLayer",
    "WeightPosterior",
    "check_finite",
    "likelihoods",
    "log_joint",
    "log_prior",
    "posterior_file",
    "take",
]
