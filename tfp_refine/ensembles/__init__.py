"""Posteriors from training: ensembles, SWAG, temperature scaling."""

from tfp_refine.ensembles.deep_ensemble import deep_ensemble
from tfp_refine.ensembles.stacking import stacking_weights
from tfp_refine.ensembles.swag import swag
from tfp_refine.ensembles.swag_posterior import SWAGPosterior
from tfp_refine.ensembles.temperature import TemperatureScaling

__all__ = [
    "SWAGPosterior",
    "TemperatureScaling",
    "deep_ensemble",
    "stacking_weights",
    "swag",
]
