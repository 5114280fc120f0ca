"""Base of convolutional layers whose weights have posteriors."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine.layers import argument_types
from tfp_refine.layers import variational_layer

# Arguments of linear maps that are positive integers.
_COUNTS = ("filters", "groups", "depth_multiplier")


class ConvolutionalLayer(variational_layer.VariationalLayer):
    """Base of convolutions, also of transposed and depthwise ones.

    A subclass names its deterministic twin, `keras_layer`, which checks the
    arguments and computes the shape of the outputs. `map_arguments` are the
    arguments that describe the linear map: those that other layers lack.
    """

    keras_layer: type[keras.layers.Layer]
    kernel_size: tuple[int, ...]
    strides: tuple[int, ...]
    dilation_rate: tuple[int, ...]
    padding: str
    data_format: str

    def __init__(self, **arguments: Any) -> None:
        others = argument_types.passed_to(
            variational_layer.VariationalLayer, arguments
        )
        super().__init__(**others)
        map_arguments = {
            name: value
            for name, value in arguments.items()
            if name not in others
        }
        self.map_arguments = tuple(map_arguments)
        for name in _COUNTS:
            if name in map_arguments:
                map_arguments[name] = _validation.positive_integer(
                    name, map_arguments[name]
                )
        padding = map_arguments["padding"]
        if not isinstance(padding, str):
            raise ValueError(
                "`padding` must be a string, such as 'same'. "
                f"Received: padding={padding!r}"
            )
        # Named, so that it does not use up a default name.
        twin = self.keras_layer(use_bias=False, name="twin", **map_arguments)
        for name in self.map_arguments:
            setattr(self, name, getattr(twin, name))
        self._twin_output_shape = twin.compute_output_shape
        self.input_spec = keras.layers.InputSpec(ndim=self.rank + 2)
        self.supports_masking = False  # as in Keras: positions move

    @property
    def rank(self) -> int:
        """Number of spatial axes."""
        return len(self.kernel_size)

    @property
    def channel_axis(self) -> int:
        """Axis of the channels, of inputs and of outputs."""
        return -1 if self.data_format == "channels_last" else 1

    def build(self, input_shape: argument_types.Shape) -> None:
        channels = input_shape[self.channel_axis]
        if not channels:
            raise ValueError(
                "The channel axis of the inputs must have a known size above "
                "0. "
                f"Received: input_shape={tuple(input_shape)}"
            )
        # The twin knows the number of output channels.
        output_shape: tuple[Any, ...] = self.compute_output_shape(input_shape)
        self.add_variational_weight(
            "kernel", (*self.kernel_size, *self.kernel_channels(channels))
        )
        if self.use_bias:
            units = output_shape[self.channel_axis]
            self.add_variational_weight("bias", (units,))
        self.input_spec = keras.layers.InputSpec(
            ndim=self.rank + 2, axes={self.channel_axis: channels}
        )

    def kernel_channels(self, channels: int) -> tuple[int, int]:
        """Returns the kernel's last two sizes, in the order of the twin."""
        raise NotImplementedError(
            f"{type(self).__name__} must implement `kernel_channels`"
        )

    def _call(
        self,
        inputs: tf.Tensor,
        sample: bool | None,
        sample_outputs: Callable[[tf.Tensor], tf.Tensor],
    ) -> tf.Tensor:
        # Refuses inputs smaller than the window, also once it is built.
        output_shape = self.compute_output_shape(inputs.shape)
        channels = self.channel_axis % len(inputs.shape)
        if 0 in (*inputs.shape[1:channels], *inputs.shape[channels + 1 :]):
            raise ValueError(
                "Inputs must have at least one position. Received: shape="
                f"{tuple(inputs.shape)}"
            )
        if inputs.shape[0] == 0:
            # TensorFlow's own have the inputs' shape then (oneDNN).
            return keras.ops.zeros(output_shape, self.compute_dtype)
        return super()._call(inputs, sample, sample_outputs)

    def broadcast_bias(self, bias: tf.Tensor) -> tf.Tensor:
        if self.channel_axis == -1:
            return bias
        return keras.ops.reshape(bias, (1, -1) + (1,) * self.rank)

    def compute_output_shape(
        self, input_shape: argument_types.Shape
    ) -> argument_types.Shape:
        return tuple(self._twin_output_shape(input_shape))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in self.map_arguments},
        }
