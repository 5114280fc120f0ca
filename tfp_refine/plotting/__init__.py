"""Figures of records; needs matplotlib, the extra `plot`."""

from tfp_refine.plotting.densities import densities
from tfp_refine.plotting.elbo_staircase import elbo_staircase
from tfp_refine.plotting.entropy_histogram import entropy_histogram
from tfp_refine.plotting.learning_curves import learning_curves
from tfp_refine.plotting.reliability_diagram import reliability_diagram
from tfp_refine.plotting.rotated_digit import rotated_digit

__all__ = [
    "densities",
    "elbo_staircase",
    "entropy_histogram",
    "learning_curves",
    "reliability_diagram",
    "rotated_digit",
]
