"""Checks of arguments that many functions take."""

from tfp_refine.arguments.positive import positive
from tfp_refine.arguments.positive import positive_integer

__all__ = ["positive", "positive_integer"]
