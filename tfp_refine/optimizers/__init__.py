"""Optimizers for Keras models."""

from tfp_refine.optimizers.adam import Adam

__all__ = ["Adam"]
