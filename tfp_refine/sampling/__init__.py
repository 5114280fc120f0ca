"""Markov chain Monte Carlo on the weights of networks."""

from tfp_refine.sampling.cyclical_sghmc import cyclical_sghmc
from tfp_refine.sampling.diagnostics import effective_sample_size
from tfp_refine.sampling.diagnostics import r_hat
from tfp_refine.sampling.nuts import nuts
from tfp_refine.sampling.nuts import nuts_last_layer

__all__ = [
    "cyclical_sghmc",
    "effective_sample_size",
    "nuts",
    "nuts_last_layer",
    "r_hat",
]
