"""Figures of records; needs matplotlib, the extra `plot`."""

from tfp_refine.plotting.densities import densities
from tfp_refine.plotting.elbo_staircase import elbo_staircase

__all__ = ["densities", "elbo_staircase"]
