"""Depthwise convolutions whose weights have posteriors."""

from typing import Any

import keras
import tensorflow as tf

from tfp_refine.layers import argument_types
from tfp_refine.layers import convolutional_layer
from tfp_refine.layers import docstrings
from tfp_refine.layers import estimators


class VariationalDepthwiseConv(convolutional_layer.ConvolutionalLayer):
    """A random convolution of each channel by itself; see the public layers.

    Keras calls the kernel's arguments `depthwise_*`, and so does this class.
    """

    depth_multiplier: int
    unit_axes = (-2, -1)
    _RENAMED = ("initializer", "regularizer", "constraint")

    def __init__(
        self,
        kernel_size: argument_types.Sizes,
        strides: argument_types.Sizes = 1,
        padding: str = "valid",
        depth_multiplier: int = 1,
        data_format: str | None = None,
        dilation_rate: argument_types.Sizes = 1,
        activation: argument_types.Activation = None,
        use_bias: bool = True,
        depthwise_initializer: argument_types.Initializer = "glorot_uniform",
        bias_initializer: argument_types.Initializer = "zeros",
        depthwise_regularizer: argument_types.Regularizer = "gaussian_kl",
        bias_regularizer: argument_types.Regularizer = "gaussian_kl",
        activity_regularizer: argument_types.Regularizer = None,
        depthwise_constraint: argument_types.Constraint = None,
        bias_constraint: argument_types.Constraint = None,
        *,
        kernel_posterior: argument_types.Posterior = "mean_field",
        bias_posterior: argument_types.Posterior = "mean_field",
        num_train_examples: int | None = None,
        kl_scale: float = 1.0,
        sample: bool = True,
        seed: int | None = None,
        name: str | None = None,
        dtype: argument_types.DType = None,
        trainable: bool = True,
    ) -> None:
        arguments = argument_types.passed(locals())
        for name in self._RENAMED:
            arguments[f"kernel_{name}"] = arguments.pop(f"depthwise_{name}")
        super().__init__(**arguments)

    @property
    def depthwise_initializer(self) -> keras.initializers.Initializer:
        """Initializer of the kernel's means."""
        return self.kernel_initializer

    @property
    def depthwise_regularizer(self) -> keras.regularizers.Regularizer | None:
        """Regularizer of the kernel."""
        return self.kernel_regularizer

    @property
    def depthwise_constraint(self) -> keras.constraints.Constraint | None:
        """Constraint of the kernel's means."""
        return self.kernel_constraint

    @property
    def num_groups(self) -> int:
        """Number of groups of units that see different channels."""
        return self.kernel.shape[-2]

    def kernel_channels(self, channels: int) -> tuple[int, int]:
        return channels, self.depth_multiplier

    def regularizer_argument(self, name: str) -> str:
        prefix = "depthwise" if name == "kernel" else name
        return f"{prefix}_regularizer"

    def apply_kernel(self, inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        return keras.ops.depthwise_conv(
            inputs,
            kernel,
            strides=self.strides,
            padding=self.padding,
            data_format=self.data_format,
            dilation_rate=self.dilation_rate,
        )

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        for name in self._RENAMED:
            config[f"depthwise_{name}"] = config.pop(f"kernel_{name}")
        return config


@docstrings.public_layer
class DepthwiseConv1DReparameterization(
    estimators.Reparameterization, VariationalDepthwiseConv
):
    """Depthwise 1D convolution whose weights are drawn once for each call.

    {depthwise}

    {conv_reparameterization}
    """

    keras_layer = keras.layers.DepthwiseConv1D


@docstrings.public_layer
class DepthwiseConv1DLocalReparameterization(
    estimators.LocalReparameterization, VariationalDepthwiseConv
):
    """Depthwise 1D convolution that draws each pre-activation by itself.

    {depthwise}

    {conv_local_reparameterization}
    """

    keras_layer = keras.layers.DepthwiseConv1D


@docstrings.public_layer
class DepthwiseConv1DFlipout(estimators.Flipout, VariationalDepthwiseConv):
    """Depthwise 1D convolution that decorrelates one draw by random signs.

    {depthwise}

    {conv_flipout}
    """

    keras_layer = keras.layers.DepthwiseConv1D


@docstrings.public_layer
class DepthwiseConv2DReparameterization(
    estimators.Reparameterization, VariationalDepthwiseConv
):
    """Depthwise 2D convolution whose weights are drawn once for each call.

    {depthwise}

    {conv_reparameterization}
    """

    keras_layer = keras.layers.DepthwiseConv2D


@docstrings.public_layer
class DepthwiseConv2DLocalReparameterization(
    estimators.LocalReparameterization, VariationalDepthwiseConv
):
    """Depthwise 2D convolution that draws each pre-activation by itself.

    {depthwise}

    {conv_local_reparameterization}
    """

    keras_layer = keras.layers.DepthwiseConv2D


@docstrings.public_layer
class DepthwiseConv2DFlipout(estimators.Flipout, VariationalDepthwiseConv):
    """Depthwise 2D convolution that decorrelates one draw by random signs.

    {depthwise}

    {conv_flipout}
    """

    keras_layer = keras.layers.DepthwiseConv2D
