"""Systems that posteriors are compared with."""

from tfp_refine.baselines.temperature import TemperatureScaling

__all__ = ["TemperatureScaling"]
