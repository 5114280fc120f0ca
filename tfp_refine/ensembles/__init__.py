"""Posteriors by training: ensembles, averages of weights, temperatures."""

from tfp_refine.ensembles.deep_ensemble import deep_ensemble
from tfp_refine.ensembles.swag import swag
from tfp_refine.ensembles.swag_posterior import SWAGPosterior
from tfp_refine.ensembles.temperature import TemperatureScaling

__all__ = [
    "SWAGPosterior",
    "TemperatureScaling",
    "deep_ensemble",
    "swag",
]
