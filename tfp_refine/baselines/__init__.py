"""Systems that posteriors are compared with."""

from tfp_refine.baselines.deep_ensemble import deep_ensemble
from tfp_refine.baselines.temperature import TemperatureScaling
from tfp_refine.baselines.weight_ensemble import WeightEnsemble

__all__ = ["TemperatureScaling", "WeightEnsemble", "deep_ensemble"]
