"""Laplace's approximation of trained networks, and its refinement."""

from tfp_refine.laplace.diagonal_laplace import DiagonalLaplace
from tfp_refine.laplace.last_layer_laplace import LastLayerLaplace

__all__ = ["DiagonalLaplace", "LastLayerLaplace"]
