"""Systems that posteriors are compared with."""

from tfp_refine.baselines.cyclical_sghmc import cyclical_sghmc
from tfp_refine.baselines.deep_ensemble import deep_ensemble
from tfp_refine.baselines.swag import SWAG
from tfp_refine.baselines.swag import swag
from tfp_refine.baselines.temperature import TemperatureScaling
from tfp_refine.baselines.weight_ensemble import WeightEnsemble

__all__ = [
    "SWAG",
    "TemperatureScaling",
    "WeightEnsemble",
    "cyclical_sghmc",
    "deep_ensemble",
    "swag",
]
