"""Variational layers for Keras 3."""

from tfp_refine.layers.concrete_dropout import ConcreteDropout
from tfp_refine.layers.conv1d_flipout import Conv1DFlipout
from tfp_refine.layers.conv1d_reparameterization import Conv1DReparameterization
from tfp_refine.layers.conv1d_transpose_flipout import Conv1DTransposeFlipout
from tfp_refine.layers.conv2d_flipout import Conv2DFlipout
from tfp_refine.layers.conv2d_local_reparameterization import (
    Conv2DLocalReparameterization,
)
from tfp_refine.layers.conv2d_mnf import Conv2DMNF
from tfp_refine.layers.conv2d_reparameterization import Conv2DReparameterization
from tfp_refine.layers.conv2d_transpose_flipout import Conv2DTransposeFlipout
from tfp_refine.layers.conv3d_flipout import Conv3DFlipout
from tfp_refine.layers.conv3d_reparameterization import Conv3DReparameterization
from tfp_refine.layers.conv3d_transpose_flipout import Conv3DTransposeFlipout
from tfp_refine.layers.dense_flipout import DenseFlipout
from tfp_refine.layers.dense_local_reparameterization import (
    DenseLocalReparameterization,
)
from tfp_refine.layers.dense_mnf import DenseMNF
from tfp_refine.layers.dense_reparameterization import DenseReparameterization
from tfp_refine.layers.depthwise_conv1d_flipout import DepthwiseConv1DFlipout
from tfp_refine.layers.depthwise_conv2d_flipout import DepthwiseConv2DFlipout
from tfp_refine.layers.embedding_reparameterization import (
    EmbeddingReparameterization,
)
from tfp_refine.layers.fixed_variance_posterior import FixedVariancePosterior
from tfp_refine.layers.gru_reparameterization import GRUReparameterization
from tfp_refine.layers.homoscedastic_noise import HomoscedasticNoise
from tfp_refine.layers.k_tied_posterior import KTiedPosterior
from tfp_refine.layers.kl_bookkeeping import set_kl_scale
from tfp_refine.layers.kl_bookkeeping import set_num_train_examples
from tfp_refine.layers.low_rank_posterior import LowRankPosterior
from tfp_refine.layers.lstm_reparameterization import LSTMReparameterization
from tfp_refine.layers.mc_dropout import MCDropout
from tfp_refine.layers.mean_field_posterior import MeanFieldPosterior
from tfp_refine.layers.mean_weights import mean_weights
from tfp_refine.layers.observed_inputs import observe_inputs
from tfp_refine.layers.posterior_family import PosteriorFamily
from tfp_refine.layers.recurrent_layer import RecurrentLayer
from tfp_refine.layers.sampled_layer import SampledLayer
from tfp_refine.layers.variational_layer import VariationalLayer
from tfp_refine.layers.variational_weight import VariationalWeight

__all__ = [
    "ConcreteDropout",
    "Conv1DFlipout",
    "Conv1DReparameterization",
    "Conv1DTransposeFlipout",
    "Conv2DFlipout",
    "Conv2DLocalReparameterization",
    "Conv2DMNF",
    "Conv2DReparameterization",
    "Conv2DTransposeFlipout",
    "Conv3DFlipout",
    "Conv3DReparameterization",
    "Conv3DTransposeFlipout",
    "DenseFlipout",
    "DenseLocalReparameterization",
    "DenseMNF",
    "DenseReparameterization",
    "DepthwiseConv1DFlipout",
    "DepthwiseConv2DFlipout",
    "EmbeddingReparameterization",
    "FixedVariancePosterior",
    "GRUReparameterization",
    "HomoscedasticNoise",
    "KTiedPosterior",
    "LSTMReparameterization",
    "LowRankPosterior",
    "MCDropout",
    "MeanFieldPosterior",
    "PosteriorFamily",
    "RecurrentLayer",
    "SampledLayer",
    "VariationalLayer",
    "VariationalWeight",
    "mean_weights",
    "observe_inputs",
    "set_kl_scale",
    "set_num_train_examples",
]
