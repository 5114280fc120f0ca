"""Metrics of predictions: on arrays of draws, never on a model."""

from tfp_refine.metrics.brier import brier_score
from tfp_refine.metrics.calibration import CalibrationBins
from tfp_refine.metrics.calibration import calibration_bins
from tfp_refine.metrics.calibration import expected_calibration_error
from tfp_refine.metrics.calibration import maximum_calibration_error
from tfp_refine.metrics.classification import accuracy
from tfp_refine.metrics.entropy import expected_entropy
from tfp_refine.metrics.entropy import mutual_information
from tfp_refine.metrics.entropy import predictive_entropy
from tfp_refine.metrics.likelihood import gaussian_negative_log_likelihood
from tfp_refine.metrics.likelihood import negative_log_likelihood
from tfp_refine.metrics.maximum_mean_discrepancy import mmd
from tfp_refine.metrics.out_of_distribution import auroc
from tfp_refine.metrics.out_of_distribution import confidence
from tfp_refine.metrics.out_of_distribution import fpr_at_95_tpr
from tfp_refine.metrics.regression import root_mean_squared_error

__all__ = [
    "CalibrationBins",
    "accuracy",
    "auroc",
    "brier_score",
    "calibration_bins",
    "confidence",
    "expected_calibration_error",
    "expected_entropy",
    "fpr_at_95_tpr",
    "gaussian_negative_log_likelihood",
    "maximum_calibration_error",
    "mmd",
    "mutual_information",
    "negative_log_likelihood",
    "predictive_entropy",
    "root_mean_squared_error",
]
