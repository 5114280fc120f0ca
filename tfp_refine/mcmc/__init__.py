"""Markov chain Monte Carlo on the weights of trained networks."""

from tfp_refine.mcmc.nuts import nuts
from tfp_refine.mcmc.nuts import nuts_last_layer
from tfp_refine.mcmc.weight_samples import WeightSamples

__all__ = ["WeightSamples", "nuts", "nuts_last_layer"]
