"""Figures of records; needs matplotlib, the extra `plot`."""

import importlib.util as _importlib_util

if _importlib_util.find_spec("matplotlib") is None:
    raise ImportError("Plots need matplotlib: pip install 'tfp_refine[plot]'")

from tfp_refine.plotting.convergence import convergence
from tfp_refine.plotting.curves import attack_curves
from tfp_refine.plotting.curves import depth_sweep
from tfp_refine.plotting.curves import flow_length
from tfp_refine.plotting.curves import memorization
from tfp_refine.plotting.curves import pruning_curve
from tfp_refine.plotting.curves import shift_curves
from tfp_refine.plotting.densities import densities
from tfp_refine.plotting.elbo_staircase import elbo_staircase
from tfp_refine.plotting.entropy_cdf import entropy_cdf
from tfp_refine.plotting.entropy_histogram import entropy_histogram
from tfp_refine.plotting.integration_errors import integration_errors
from tfp_refine.plotting.learning_curves import learning_curves
from tfp_refine.plotting.posterior_contours import posterior_contours
from tfp_refine.plotting.posterior_histograms import posterior_histograms
from tfp_refine.plotting.posterior_scatter import posterior_scatter
from tfp_refine.plotting.predictive_bands import predictive_bands
from tfp_refine.plotting.ranking import ranking
from tfp_refine.plotting.reliability_diagram import reliability_diagram
from tfp_refine.plotting.rotated_digit import rotated_digit

__all__ = [
    "attack_curves",
    "convergence",
    "densities",
    "depth_sweep",
    "elbo_staircase",
    "entropy_cdf",
    "entropy_histogram",
    "flow_length",
    "integration_errors",
    "learning_curves",
    "memorization",
    "posterior_contours",
    "posterior_histograms",
    "posterior_scatter",
    "predictive_bands",
    "pruning_curve",
    "ranking",
    "reliability_diagram",
    "rotated_digit",
    "shift_curves",
]
