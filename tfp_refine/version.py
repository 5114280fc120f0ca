"""The version of `tfp_refine`, the one place that states it."""

__version__ = "0.1.0"
