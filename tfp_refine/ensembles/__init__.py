"""Systems that posteriors are compared with."""

from tfp_refine.ensembles.cyclical_sghmc import cyclical_sghmc
from tfp_refine.ensembles.deep_ensemble import deep_ensemble
from tfp_refine.ensembles.swag import SWAG
from tfp_refine.ensembles.swag import swag
from tfp_refine.ensembles.temperature import TemperatureScaling
from tfp_refine.ensembles.weight_ensemble import WeightEnsemble

__all__ = [
    "SWAG",
    "TemperatureScaling",
    "WeightEnsemble",
    "cyclical_sghmc",
    "deep_ensemble",
    "swag",
]
