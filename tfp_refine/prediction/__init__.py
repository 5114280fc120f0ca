"""Draws of the predictive distribution, in one call."""

from tfp_refine.prediction.predict import predict

__all__ = ["predict"]
