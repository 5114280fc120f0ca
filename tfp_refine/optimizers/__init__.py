"""Optimizers for Keras models."""

from tfp_refine.optimizers.adam import Adam
from tfp_refine.optimizers.ivon import IVON

__all__ = ["Adam", "IVON"]
