"""Variational layers for Keras 3."""

from tfp_refine.layers.attention import GroupQueryAttentionFlipout
from tfp_refine.layers.attention import (
    GroupQueryAttentionLocalReparameterization,
)
from tfp_refine.layers.attention import GroupQueryAttentionReparameterization
from tfp_refine.layers.attention import MultiHeadAttentionFlipout
from tfp_refine.layers.attention import (
    MultiHeadAttentionLocalReparameterization,
)
from tfp_refine.layers.attention import MultiHeadAttentionReparameterization
from tfp_refine.layers.concrete_dropout import ConcreteDropout
from tfp_refine.layers.convolutions import Conv1DFlipout
from tfp_refine.layers.convolutions import Conv1DLocalReparameterization
from tfp_refine.layers.convolutions import Conv1DReparameterization
from tfp_refine.layers.convolutions import Conv2DFlipout
from tfp_refine.layers.convolutions import Conv2DLocalReparameterization
from tfp_refine.layers.convolutions import Conv2DReparameterization
from tfp_refine.layers.convolutions import Conv3DFlipout
from tfp_refine.layers.convolutions import Conv3DLocalReparameterization
from tfp_refine.layers.convolutions import Conv3DReparameterization
from tfp_refine.layers.dense import DenseFlipout
from tfp_refine.layers.dense import DenseLocalReparameterization
from tfp_refine.layers.dense import DenseReparameterization
from tfp_refine.layers.depthwise_convolutions import DepthwiseConv1DFlipout
from tfp_refine.layers.depthwise_convolutions import (
    DepthwiseConv1DLocalReparameterization,
)
from tfp_refine.layers.depthwise_convolutions import (
    DepthwiseConv1DReparameterization,
)
from tfp_refine.layers.depthwise_convolutions import DepthwiseConv2DFlipout
from tfp_refine.layers.depthwise_convolutions import (
    DepthwiseConv2DLocalReparameterization,
)
from tfp_refine.layers.depthwise_convolutions import (
    DepthwiseConv2DReparameterization,
)
from tfp_refine.layers.einsum_dense import EinsumDenseFlipout
from tfp_refine.layers.einsum_dense import EinsumDenseLocalReparameterization
from tfp_refine.layers.einsum_dense import EinsumDenseReparameterization
from tfp_refine.layers.embedding_reparameterization import (
    EmbeddingReparameterization,
)
from tfp_refine.layers.fixed_variance_posterior import FixedVariancePosterior
from tfp_refine.layers.homoscedastic_noise import HomoscedasticNoise
from tfp_refine.layers.k_tied_posterior import KTiedPosterior
from tfp_refine.layers.kl_weight import set_kl_scale
from tfp_refine.layers.kl_weight import set_num_train_examples
from tfp_refine.layers.low_rank_posterior import LowRankPosterior
from tfp_refine.layers.mc_dropout import MCDropout
from tfp_refine.layers.mean_field_posterior import MeanFieldPosterior
from tfp_refine.layers.mnf import Conv2DMNF
from tfp_refine.layers.mnf import DenseMNF
from tfp_refine.layers.posterior_family import PosteriorFamily
from tfp_refine.layers.recurrent_layers import GRUReparameterization
from tfp_refine.layers.recurrent_layers import LSTMReparameterization
from tfp_refine.layers.recurrent_layers import RecurrentLayer
from tfp_refine.layers.sampled_layer import SampledLayer
from tfp_refine.layers.scopes import mean_weights
from tfp_refine.layers.scopes import observe_inputs
from tfp_refine.layers.separable_convolutions import SeparableConv1DFlipout
from tfp_refine.layers.separable_convolutions import (
    SeparableConv1DLocalReparameterization,
)
from tfp_refine.layers.separable_convolutions import (
    SeparableConv1DReparameterization,
)
from tfp_refine.layers.separable_convolutions import SeparableConv2DFlipout
from tfp_refine.layers.separable_convolutions import (
    SeparableConv2DLocalReparameterization,
)
from tfp_refine.layers.separable_convolutions import (
    SeparableConv2DReparameterization,
)
from tfp_refine.layers.transposed_convolutions import Conv1DTransposeFlipout
from tfp_refine.layers.transposed_convolutions import Conv2DTransposeFlipout
from tfp_refine.layers.transposed_convolutions import Conv3DTransposeFlipout
from tfp_refine.layers.variational_layer import VariationalLayer
from tfp_refine.layers.variational_weight import VariationalWeight

__all__ = [
    "ConcreteDropout",
    "Conv1DFlipout",
    "Conv1DLocalReparameterization",
    "Conv1DReparameterization",
    "Conv1DTransposeFlipout",
    "Conv2DFlipout",
    "Conv2DLocalReparameterization",
    "Conv2DMNF",
    "Conv2DReparameterization",
    "Conv2DTransposeFlipout",
    "Conv3DFlipout",
    "Conv3DLocalReparameterization",
    "Conv3DReparameterization",
    "Conv3DTransposeFlipout",
    "DenseFlipout",
    "DenseLocalReparameterization",
    "DenseMNF",
    "DenseReparameterization",
    "DepthwiseConv1DFlipout",
    "DepthwiseConv1DLocalReparameterization",
    "DepthwiseConv1DReparameterization",
    "DepthwiseConv2DFlipout",
    "DepthwiseConv2DLocalReparameterization",
    "DepthwiseConv2DReparameterization",
    "EinsumDenseFlipout",
    "EinsumDenseLocalReparameterization",
    "EinsumDenseReparameterization",
    "EmbeddingReparameterization",
    "FixedVariancePosterior",
    "GRUReparameterization",
    "GroupQueryAttentionFlipout",
    "GroupQueryAttentionLocalReparameterization",
    "GroupQueryAttentionReparameterization",
    "HomoscedasticNoise",
    "KTiedPosterior",
    "LSTMReparameterization",
    "LowRankPosterior",
    "MCDropout",
    "MeanFieldPosterior",
    "MultiHeadAttentionFlipout",
    "MultiHeadAttentionLocalReparameterization",
    "MultiHeadAttentionReparameterization",
    "PosteriorFamily",
    "RecurrentLayer",
    "SampledLayer",
    "SeparableConv1DFlipout",
    "SeparableConv1DLocalReparameterization",
    "SeparableConv1DReparameterization",
    "SeparableConv2DFlipout",
    "SeparableConv2DLocalReparameterization",
    "SeparableConv2DReparameterization",
    "VariationalLayer",
    "VariationalWeight",
    "mean_weights",
    "observe_inputs",
    "set_kl_scale",
    "set_num_train_examples",
]
