"""Laplace's approximation of trained networks, and its refinement."""

from tfp_refine.laplace.diagonal_laplace import DiagonalLaplace
from tfp_refine.laplace.flow_posterior import FlowPosterior
from tfp_refine.laplace.flows import Flow
from tfp_refine.laplace.last_layer_laplace import LastLayerLaplace
from tfp_refine.laplace.predictives import PREDICTIVES

__all__ = [
    "DiagonalLaplace",
    "Flow",
    "FlowPosterior",
    "LastLayerLaplace",
    "PREDICTIVES",
]
