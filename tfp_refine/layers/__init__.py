"""Variational layers for Keras 3."""

from tfp_refine.layers.dense_flipout import DenseFlipout
from tfp_refine.layers.dense_local_reparameterization import (
    DenseLocalReparameterization,
)
from tfp_refine.layers.dense_reparameterization import DenseReparameterization
from tfp_refine.layers.homoscedastic_noise import HomoscedasticNoise
from tfp_refine.layers.kl_bookkeeping import set_kl_scale
from tfp_refine.layers.kl_bookkeeping import set_num_train_examples
from tfp_refine.layers.mean_field_posterior import MeanFieldPosterior
from tfp_refine.layers.mean_weights import mean_weights
from tfp_refine.layers.variational_layer import VariationalLayer
from tfp_refine.layers.variational_weight import VariationalWeight

__all__ = [
    "DenseFlipout",
    "DenseLocalReparameterization",
    "DenseReparameterization",
    "HomoscedasticNoise",
    "MeanFieldPosterior",
    "VariationalLayer",
    "VariationalWeight",
    "mean_weights",
    "set_kl_scale",
    "set_num_train_examples",
]
