"""Convolutions whose weights have posteriors."""

import keras
import tensorflow as tf

from tfp_refine.layers import argument_types
from tfp_refine.layers import convolutional_layer
from tfp_refine.layers import docstrings
from tfp_refine.layers import estimators


class VariationalConv(convolutional_layer.ConvolutionalLayer):
    """A random convolution; see the public layers."""

    filters: int
    groups: int

    def __init__(
        self,
        filters: int,
        kernel_size: argument_types.Sizes,
        strides: argument_types.Sizes = 1,
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: argument_types.Sizes = 1,
        groups: int = 1,
        activation: argument_types.Activation = None,
        use_bias: bool = True,
        kernel_initializer: argument_types.Initializer = "glorot_uniform",
        bias_initializer: argument_types.Initializer = "zeros",
        kernel_regularizer: argument_types.Regularizer = "gaussian_kl",
        bias_regularizer: argument_types.Regularizer = "gaussian_kl",
        activity_regularizer: argument_types.Regularizer = None,
        kernel_constraint: argument_types.Constraint = None,
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
        super().__init__(**argument_types.passed(locals()))

    @property
    def num_groups(self) -> int:
        """Number of groups of filters that see different channels."""
        return self.groups

    def kernel_channels(self, channels: int) -> tuple[int, int]:
        if channels % self.groups:
            raise ValueError(
                "`groups` must divide the number of input channels. Received: "
                f"groups={self.groups} for {channels} channels"
            )
        return channels // self.groups, self.filters

    def apply_kernel(self, inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        padding, strides = self.padding, self.strides
        if padding == "causal":
            inputs = self._pad_causally(inputs)
            padding = "valid"
        if set(self.kernel_size) == {1}:
            # The same numbers, for less; and the filter gradient of a strided
            # 1x1 convolution corrupts memory in TensorFlow 2.21 on a CPU
            # (oneDNN, an odd batch, fewer than 16 channels).
            inputs = self._subsample(inputs)
            strides = (1,) * self.rank
        return keras.ops.conv(
            inputs,
            kernel,
            strides=strides,
            padding=padding,
            data_format=self.data_format,
            dilation_rate=self.dilation_rate,
        )

    def _pad_causally(self, inputs: tf.Tensor) -> tf.Tensor:
        left = self.dilation_rate[0] * (self.kernel_size[0] - 1)
        paddings = [[0, 0]] * 3
        paddings[1 if self.channel_axis == -1 else 2] = [left, 0]
        return keras.ops.pad(inputs, paddings)

    def _subsample(self, inputs: tf.Tensor) -> tf.Tensor:
        steps = tuple(slice(None, None, stride) for stride in self.strides)
        if self.channel_axis == -1:
            return inputs[(slice(None), *steps)]
        return inputs[(slice(None), slice(None), *steps)]


@docstrings.public_layer
class Conv1DReparameterization(estimators.Reparameterization, VariationalConv):
    """1D convolution whose weights are drawn once for each call.

    {conv_reparameterization}
    """

    keras_layer = keras.layers.Conv1D


@docstrings.public_layer
class Conv1DLocalReparameterization(
    estimators.LocalReparameterization, VariationalConv
):
    """1D convolution that draws each pre-activation from its Gaussian marginal.

    {conv_local_reparameterization}
    """

    keras_layer = keras.layers.Conv1D


@docstrings.public_layer
class Conv1DFlipout(estimators.Flipout, VariationalConv):
    """1D convolution that decorrelates one draw of the weights by random signs.

    {conv_flipout}
    """

    keras_layer = keras.layers.Conv1D


@docstrings.public_layer
class Conv2DReparameterization(estimators.Reparameterization, VariationalConv):
    """2D convolution whose weights are drawn once for each call.

    {conv_reparameterization}
    """

    keras_layer = keras.layers.Conv2D


@docstrings.public_layer
class Conv2DLocalReparameterization(
    estimators.LocalReparameterization, VariationalConv
):
    """2D convolution that draws each pre-activation from its Gaussian marginal.

    {conv_local_reparameterization}
    """

    keras_layer = keras.layers.Conv2D


@docstrings.public_layer
class Conv2DFlipout(estimators.Flipout, VariationalConv):
    """2D convolution that decorrelates one draw of the weights by random signs.

    {conv_flipout}
    """

    keras_layer = keras.layers.Conv2D


@docstrings.public_layer
class Conv3DReparameterization(estimators.Reparameterization, VariationalConv):
    """3D convolution whose weights are drawn once for each call.

    {conv_reparameterization}
    """

    keras_layer = keras.layers.Conv3D


@docstrings.public_layer
class Conv3DLocalReparameterization(
    estimators.LocalReparameterization, VariationalConv
):
    """3D convolution that draws each pre-activation from its Gaussian marginal.

    {conv_local_reparameterization}
    """

    keras_layer = keras.layers.Conv3D


@docstrings.public_layer
class Conv3DFlipout(estimators.Flipout, VariationalConv):
    """3D convolution that decorrelates one draw of the weights by random signs.

    {conv_flipout}
    """

    keras_layer = keras.layers.Conv3D
