"""Separable convolutions whose weights have posteriors."""

from typing import Any

import keras
import tensorflow as tf

from tfp_refine.layers import argument_types
from tfp_refine.layers import convolutions
from tfp_refine.layers import depthwise_convolutions as depthwise
from tfp_refine.layers import docstrings
from tfp_refine.layers import kl_weight
from tfp_refine.layers import posterior_arguments
from tfp_refine.layers import random_layer
from tfp_refine.layers import scopes

# Arguments of the first of the two convolutions, and of both.
_OF_WINDOWS = (
    "kernel_size",
    "strides",
    "padding",
    "depth_multiplier",
    "dilation_rate",
)
_OF_BOTH = ("data_format", "num_train_examples", "kl_scale", "sample", "dtype")


class VariationalSeparableConv(posterior_arguments.PosteriorArguments):
    """A random depthwise convolution, and a 1x1 one; see the public layers.

    A subclass names their classes.
    """

    keras_layer: type[keras.layers.Layer]
    depthwise_layer: type[depthwise.VariationalDepthwiseConv]
    pointwise_layer: type[convolutions.VariationalConv]
    # Prefixes of arguments, and the variables of the layer of Keras.
    parts = (
        ("depthwise", "depthwise_kernel"),
        ("pointwise", "pointwise_kernel"),
        ("bias", "bias"),
    )

    def __init__(
        self,
        filters: int,
        kernel_size: argument_types.Sizes,
        strides: argument_types.Sizes = 1,
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: argument_types.Sizes = 1,
        depth_multiplier: int = 1,
        activation: argument_types.Activation = None,
        use_bias: bool = True,
        depthwise_initializer: argument_types.Initializer = "glorot_uniform",
        pointwise_initializer: argument_types.Initializer = "glorot_uniform",
        bias_initializer: argument_types.Initializer = "zeros",
        depthwise_regularizer: argument_types.Regularizer = "gaussian_kl",
        pointwise_regularizer: argument_types.Regularizer = "gaussian_kl",
        bias_regularizer: argument_types.Regularizer = "gaussian_kl",
        activity_regularizer: argument_types.Regularizer = None,
        depthwise_constraint: argument_types.Constraint = None,
        pointwise_constraint: argument_types.Constraint = None,
        bias_constraint: argument_types.Constraint = None,
        *,
        depthwise_posterior: argument_types.Posterior = "mean_field",
        pointwise_posterior: argument_types.Posterior = "mean_field",
        bias_posterior: argument_types.Posterior = "mean_field",
        num_train_examples: int | None = None,
        kl_scale: float = 1.0,
        sample: bool = True,
        seed: int | None = None,
        name: str | None = None,
        dtype: argument_types.DType = None,
        trainable: bool = True,
    ) -> None:
        given = argument_types.passed(locals())
        super().__init__(
            activity_regularizer=activity_regularizer,
            name=name,
            dtype=dtype,
            trainable=trainable,
        )
        self.sample, self.seed = bool(sample), seed
        self._kl_weight = kl_weight.KLWeight(kl_scale, num_train_examples)
        for part, _ in self.parts:
            self.set_posterior(
                part, given[f"{part}_regularizer"], given[f"{part}_posterior"]
            )
        both = {argument: given[argument] for argument in _OF_BOTH}
        self.depthwise = self.depthwise_layer(
            **both,
            **{argument: given[argument] for argument in _OF_WINDOWS},
            use_bias=False,
            depthwise_initializer=depthwise_initializer,
            depthwise_regularizer=self.depthwise_regularizer,
            depthwise_constraint=depthwise_constraint,
            kernel_posterior=self.depthwise_posterior,
            seed=random_layer.seed_of_part(seed, 0),
            name="depthwise",
        )
        self.pointwise = self.pointwise_layer(
            filters,
            1,
            **both,
            activation=activation,
            use_bias=use_bias,
            kernel_initializer=pointwise_initializer,
            kernel_regularizer=self.pointwise_regularizer,
            kernel_constraint=pointwise_constraint,
            kernel_posterior=self.pointwise_posterior,
            bias_initializer=bias_initializer,
            bias_regularizer=self.bias_regularizer,
            bias_constraint=bias_constraint,
            bias_posterior=self.bias_posterior,
            seed=random_layer.seed_of_part(seed, 1),
            name="pointwise",
        )
        for layer in (self.depthwise, self.pointwise):
            layer._kl_weight = self._kl_weight
        self.input_spec = self.depthwise.input_spec
        self.supports_masking = False  # as in Keras: positions move

    @property
    def draws_weights(self) -> bool:  # type: ignore[override]
        """True if outputs are computed with draws of the weights."""
        return self.pointwise_layer.draws_weights

    def build(self, input_shape: argument_types.Shape) -> None:
        self.depthwise.build(input_shape)
        self.pointwise.build(self.depthwise.compute_output_shape(input_shape))
        self.input_spec = self.depthwise.input_spec

    @property
    def twin_weights(self) -> dict[str, posterior_arguments.Weight]:
        return {
            "depthwise_kernel": self.depthwise.twin_weights["kernel"],
            **{
                "pointwise_kernel" if name == "kernel" else name: weight
                for name, weight in self.pointwise.twin_weights.items()
            },
        }

    def call(self, inputs: tf.Tensor, sample: bool | None = None) -> tf.Tensor:
        with scopes.sampling(scopes.is_sampling(sample, self.sample)):
            return self.pointwise(self.depthwise(inputs))

    def compute_output_shape(
        self, input_shape: argument_types.Shape
    ) -> argument_types.Shape:
        return self.pointwise.compute_output_shape(
            self.depthwise.compute_output_shape(input_shape)
        )

    def get_config(self) -> dict[str, Any]:
        first = self.depthwise.get_config()
        second = self.pointwise.get_config()
        return {
            **super().get_config(),
            "filters": self.pointwise.filters,
            **{name: first[name] for name in _OF_WINDOWS},
            **{
                name: second[name]
                for name in ("data_format", "activation", "use_bias")
            },
            **{
                f"{part}_{kind}": config[f"{of_part}_{kind}"]
                for kind in ("initializer", "constraint")
                for part, config, of_part in (
                    ("depthwise", first, "depthwise"),
                    ("pointwise", second, "kernel"),
                    ("bias", second, "bias"),
                )
            },
            "activity_regularizer": keras.saving.serialize_keras_object(
                self.activity_regularizer
            ),
            **self.posterior_config(*(part for part, _ in self.parts)),
            "seed": self.seed,
        }


@docstrings.public_layer
class SeparableConv1DReparameterization(VariationalSeparableConv):
    """Separable 1D convolution whose weights are drawn once for each call.

    {separable}

    {conv_reparameterization}
    """

    keras_layer = keras.layers.SeparableConv1D
    depthwise_layer = depthwise.DepthwiseConv1DReparameterization
    pointwise_layer = convolutions.Conv1DReparameterization


@docstrings.public_layer
class SeparableConv1DLocalReparameterization(VariationalSeparableConv):
    """Separable 1D convolution that draws each pre-activation by itself.

    {separable}

    {conv_local_reparameterization}
    """

    keras_layer = keras.layers.SeparableConv1D
    depthwise_layer = depthwise.DepthwiseConv1DLocalReparameterization
    pointwise_layer = convolutions.Conv1DLocalReparameterization


@docstrings.public_layer
class SeparableConv1DFlipout(VariationalSeparableConv):
    """Separable 1D convolution that decorrelates one draw by random signs.

    {separable}

    {conv_flipout}
    """

    keras_layer = keras.layers.SeparableConv1D
    depthwise_layer = depthwise.DepthwiseConv1DFlipout
    pointwise_layer = convolutions.Conv1DFlipout


@docstrings.public_layer
class SeparableConv2DReparameterization(VariationalSeparableConv):
    """Separable 2D convolution whose weights are drawn once for each call.

    {separable}

    {conv_reparameterization}
    """

    keras_layer = keras.layers.SeparableConv2D
    depthwise_layer = depthwise.DepthwiseConv2DReparameterization
    pointwise_layer = convolutions.Conv2DReparameterization


@docstrings.public_layer
class SeparableConv2DLocalReparameterization(VariationalSeparableConv):
    """Separable 2D convolution that draws each pre-activation by itself.

    {separable}

    {conv_local_reparameterization}
    """

    keras_layer = keras.layers.SeparableConv2D
    depthwise_layer = depthwise.DepthwiseConv2DLocalReparameterization
    pointwise_layer = convolutions.Conv2DLocalReparameterization


@docstrings.public_layer
class SeparableConv2DFlipout(VariationalSeparableConv):
    """Separable 2D convolution that decorrelates one draw by random signs.

    {separable}

    {conv_flipout}
    """

    keras_layer = keras.layers.SeparableConv2D
    depthwise_layer = depthwise.DepthwiseConv2DFlipout
    pointwise_layer = convolutions.Conv2DFlipout
