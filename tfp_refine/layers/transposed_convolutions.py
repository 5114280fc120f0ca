"""Transposed convolutions whose weights have posteriors."""

import keras
import tensorflow as tf

from tfp_refine.layers import argument_types
from tfp_refine.layers import convolutional_layer
from tfp_refine.layers import docstrings
from tfp_refine.layers import estimators


class VariationalConvTranspose(convolutional_layer.ConvolutionalLayer):
    """A random transposed convolution; see the public layers."""

    filters: int
    output_padding: tuple[int, ...] | None
    unit_axes = (-2,)

    def __init__(
        self,
        filters: int,
        kernel_size: argument_types.Sizes,
        strides: argument_types.Sizes = 1,
        padding: str = "valid",
        output_padding: argument_types.Sizes | None = None,
        data_format: str | None = None,
        dilation_rate: argument_types.Sizes = 1,
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
        self._check_output_padding()

    def _check_output_padding(self) -> None:
        """Refuses sizes that no convolution has as its inputs."""
        if self.padding != "same" or self.output_padding is None:
            return
        windows = [
            rate * (size - 1) + 1
            for rate, size in zip(
                self.dilation_rate, self.kernel_size, strict=True
            )
        ]
        for window, more in zip(windows, self.output_padding, strict=True):
            if window % 2 + more == 0:
                raise ValueError(
                    "With padding='same', `output_padding` must be at least 1 "
                    "where `kernel_size` is even. Received: output_padding="
                    f"{self.output_padding}, kernel_size={self.kernel_size}"
                )

    def kernel_channels(self, channels: int) -> tuple[int, int]:
        return self.filters, channels

    def apply_kernel(self, inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        padding, output_padding = self.padding, self.output_padding
        if set(self.kernel_size) == {1} and max(self.strides) > 1:
            # Its gradient is that of a strided 1x1 convolution, which corrupts
            # memory (see `convolutions`). With zeros the kernel is larger.
            kernel = keras.ops.pad(kernel, [[0, 1]] * self.rank + [[0, 0]] * 2)
            padding = "same"
            if output_padding is not None:
                output_padding = tuple(size + 1 for size in output_padding)
        return keras.ops.conv_transpose(
            inputs,
            kernel,
            strides=self.strides,
            padding=padding,
            output_padding=output_padding,
            data_format=self.data_format,
            dilation_rate=self.dilation_rate,
        )


@docstrings.public_layer
class Conv1DTransposeFlipout(estimators.Flipout, VariationalConvTranspose):
    """Transposed 1D convolution that decorrelates one draw by random signs.

    {conv_flipout}
    """

    keras_layer = keras.layers.Conv1DTranspose


@docstrings.public_layer
class Conv2DTransposeFlipout(estimators.Flipout, VariationalConvTranspose):
    """Transposed 2D convolution that decorrelates one draw by random signs.

    {conv_flipout}
    """

    keras_layer = keras.layers.Conv2DTranspose


@docstrings.public_layer
class Conv3DTransposeFlipout(estimators.Flipout, VariationalConvTranspose):
    """Transposed 3D convolution that decorrelates one draw by random signs.

    {conv_flipout}
    """

    keras_layer = keras.layers.Conv3DTranspose
