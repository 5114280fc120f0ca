"""Metrics of predictions: on arrays of draws, never on a model."""

from tfp_refine.metrics.classification import accuracy
from tfp_refine.metrics.likelihood import gaussian_negative_log_likelihood
from tfp_refine.metrics.likelihood import negative_log_likelihood
from tfp_refine.metrics.regression import root_mean_squared_error

__all__ = [
    "accuracy",
    "gaussian_negative_log_likelihood",
    "negative_log_likelihood",
    "root_mean_squared_error",
]
