"""Metrics of predictions: on arrays of draws, never on a model."""

from tfp_refine.metrics.calibration import CalibrationBins
from tfp_refine.metrics.calibration import calibration_bins
from tfp_refine.metrics.calibration import expected_calibration_error
from tfp_refine.metrics.calibration import maximum_calibration_error
from tfp_refine.metrics.entropy import expected_entropy
from tfp_refine.metrics.entropy import mutual_information
from tfp_refine.metrics.entropy import predictive_entropy
from tfp_refine.metrics.errors import accuracy
from tfp_refine.metrics.errors import brier_score
from tfp_refine.metrics.errors import root_mean_squared_error
from tfp_refine.metrics.likelihood import gaussian_negative_log_likelihood
from tfp_refine.metrics.likelihood import moment_matched_negative_log_likelihood
from tfp_refine.metrics.likelihood import negative_log_likelihood
from tfp_refine.metrics.maximum_mean_discrepancy import mmd
from tfp_refine.metrics.out_of_distribution import auroc
from tfp_refine.metrics.out_of_distribution import confidence
from tfp_refine.metrics.out_of_distribution import fpr_at_95_tpr
from tfp_refine.metrics.predictive_distribution import crps
from tfp_refine.metrics.predictive_distribution import interval_coverage
from tfp_refine.metrics.predictive_distribution import predictive_cdf
from tfp_refine.metrics.predictive_distribution import predictive_variance
from tfp_refine.metrics.predictive_distribution import (
    regression_calibration_error,
)
from tfp_refine.metrics.selective import area_under_risk_coverage
from tfp_refine.metrics.streaming import BrierScore
from tfp_refine.metrics.streaming import ExpectedCalibrationError
from tfp_refine.metrics.streaming import MeanLoss
from tfp_refine.metrics.streaming import NegativeLogLikelihood

__all__ = [
    "BrierScore",
    "CalibrationBins",
    "ExpectedCalibrationError",
    "MeanLoss",
    "NegativeLogLikelihood",
    "accuracy",
    "area_under_risk_coverage",
    "auroc",
    "brier_score",
    "calibration_bins",
    "confidence",
    "crps",
    "expected_calibration_error",
    "expected_entropy",
    "fpr_at_95_tpr",
    "gaussian_negative_log_likelihood",
    "interval_coverage",
    "maximum_calibration_error",
    "mmd",
    "moment_matched_negative_log_likelihood",
    "mutual_information",
    "negative_log_likelihood",
    "predictive_cdf",
    "predictive_entropy",
    "predictive_variance",
    "regression_calibration_error",
    "root_mean_squared_error",
]
