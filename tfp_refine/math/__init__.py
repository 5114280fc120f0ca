"""Formulas: tensors in, tensors out."""

from tfp_refine.math import adam
from tfp_refine.math import auxiliary
from tfp_refine.math import collapsed
from tfp_refine.math import dirichlet
from tfp_refine.math import gated_coupling
from tfp_refine.math import gauss_newton
from tfp_refine.math import gaussian
from tfp_refine.math import laplace_evidence
from tfp_refine.math import linear_regression
from tfp_refine.math import log_uniform
from tfp_refine.math import logistic_normal
from tfp_refine.math import low_rank
from tfp_refine.math import multiplicative
from tfp_refine.math import philox
from tfp_refine.math import planar_flow
from tfp_refine.math import radial_flow
from tfp_refine.math import scale_mixture
from tfp_refine.math import softplus
from tfp_refine.math import variance_schedule

__all__ = [
    "adam",
    "auxiliary",
    "collapsed",
    "dirichlet",
    "gated_coupling",
    "gauss_newton",
    "gaussian",
    "laplace_evidence",
    "linear_regression",
    "log_uniform",
    "logistic_normal",
    "low_rank",
    "multiplicative",
    "philox",
    "planar_flow",
    "radial_flow",
    "scale_mixture",
    "softplus",
    "variance_schedule",
]
