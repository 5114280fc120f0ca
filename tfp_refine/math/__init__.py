"""Formulas: tensors in, tensors out."""

from tfp_refine.math import auxiliary
from tfp_refine.math import collapsed
from tfp_refine.math import gaussian
from tfp_refine.math import log_uniform
from tfp_refine.math import low_rank
from tfp_refine.math import scale_mixture
from tfp_refine.math import softplus
from tfp_refine.math import variance_schedule

__all__ = [
    "auxiliary",
    "collapsed",
    "gaussian",
    "log_uniform",
    "low_rank",
    "scale_mixture",
    "softplus",
    "variance_schedule",
]
