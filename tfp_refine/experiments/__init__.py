"""Runnable experiments: `python -m tfp_refine.experiments.NAME --help`."""

__all__ = []
