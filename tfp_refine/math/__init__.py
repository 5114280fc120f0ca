"""Formulas: tensors in, tensors out."""

from tfp_refine.math import auxiliary
from tfp_refine.math import gaussian
from tfp_refine.math import softplus
from tfp_refine.math import variance_schedule

__all__ = ["auxiliary", "gaussian", "softplus", "variance_schedule"]
