"""Plots of results; needs matplotlib, the extra `plot`."""

import importlib.util as _importlib_util

if _importlib_util.find_spec("matplotlib") is None:
    raise ImportError("Plots need matplotlib: pip install 'tfp_refine[plot]'")

from tfp_refine.plotting.calibration import entropy_cdf
from tfp_refine.plotting.calibration import entropy_histogram
from tfp_refine.plotting.calibration import integration_errors
from tfp_refine.plotting.calibration import reliability_diagram
from tfp_refine.plotting.comparison import attack_curves
from tfp_refine.plotting.comparison import depth_sweep
from tfp_refine.plotting.comparison import flow_length
from tfp_refine.plotting.comparison import pruning_curve
from tfp_refine.plotting.comparison import ranking
from tfp_refine.plotting.comparison import shift_curves
from tfp_refine.plotting.posteriors import densities
from tfp_refine.plotting.posteriors import posterior_contours
from tfp_refine.plotting.posteriors import posterior_histograms
from tfp_refine.plotting.posteriors import posterior_scatter
from tfp_refine.plotting.predictions import prediction_intervals
from tfp_refine.plotting.predictions import predictive_bands
from tfp_refine.plotting.predictions import rotated_digit
from tfp_refine.plotting.style import save
from tfp_refine.plotting.training import convergence
from tfp_refine.plotting.training import elbo_staircase
from tfp_refine.plotting.training import learning_curves
from tfp_refine.plotting.training import memorization

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
    "prediction_intervals",
    "predictive_bands",
    "pruning_curve",
    "ranking",
    "reliability_diagram",
    "rotated_digit",
    "save",
    "shift_curves",
]
