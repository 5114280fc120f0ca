"""Markov chain Monte Carlo on the weights of trained networks."""

from tfp_refine.sampling.nuts import nuts
from tfp_refine.sampling.nuts import nuts_last_layer
from tfp_refine.sampling.weight_samples import WeightSamples

__all__ = ["WeightSamples", "nuts", "nuts_last_layer"]
