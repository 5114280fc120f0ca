"""Models with variational layers, as functions that return a Keras model."""

from tfp_refine.models.mlp import MLP

__all__ = ["MLP"]
