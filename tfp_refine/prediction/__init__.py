"""Draws of the predictive distribution, in one call; and attacks on it."""

from tfp_refine.prediction.export import export
from tfp_refine.prediction.fast_gradient_sign import fast_gradient_sign
from tfp_refine.prediction.predict import predict

__all__ = ["export", "fast_gradient_sign", "predict"]
