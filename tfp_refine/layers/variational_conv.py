"""The linear maps of the convolutional variational layers."""

import math

import keras

from tfp_refine import _validation
from tfp_refine.layers import variational_layer


class ConvolutionalLayer(variational_layer.VariationalLayer):
    """What convolutions, transposed and depthwise ones have in common.

    A subclass names its deterministic twin, `keras_layer`: that checks the
    arguments, and knows the shape of the outputs. `map_arguments` are those
    that describe the linear map, in their order.
    """

    keras_layer = None
    map_arguments = ()

    def _set_map(self, **map_arguments):
        """Checks and keeps the arguments of the linear map."""
        padding = map_arguments["padding"]
        if not isinstance(padding, str):
            raise ValueError(
                "`padding` must be a string, such as 'same'. "
                f"Received: padding={padding!r}"
            )
        # Named, lest it use up a default name.
        twin = self.keras_layer(use_bias=False, name="twin", **map_arguments)
        for name in self.map_arguments:
            setattr(self, name, getattr(twin, name))
        self._twin_output_shape = twin.compute_output_shape
        self.input_spec = keras.layers.InputSpec(ndim=self.rank + 2)
        self.supports_masking = False  # positions move: as Keras' layers

    @property
    def rank(self):
        """Number of spatial axes."""
        return len(self.kernel_size)

    @property
    def channel_axis(self):
        """Axis of the channels, of inputs and of outputs."""
        return -1 if self.data_format == "channels_last" else 1

    def build(self, input_shape):
        channels = input_shape[self.channel_axis]
        if not channels:
            raise ValueError(
                "The channel axis of the inputs must have a known size above "
                "0. "
                f"Received: input_shape={tuple(input_shape)}"
            )
        output_shape = self.compute_output_shape(input_shape)
        self.add_variational_weight(
            "kernel", (*self.kernel_size, *self.kernel_channels(channels))
        )
        if self.use_bias:
            self.add_variational_weight(
                "bias", (output_shape[self.channel_axis],)
            )
        self.input_spec = keras.layers.InputSpec(
            ndim=self.rank + 2, axes={self.channel_axis: channels}
        )

    def kernel_channels(self, channels):
        """Returns the last two sizes of the kernel.

        Args:
            channels: Number of input channels.

        Returns:
            sizes: Two integers, in the order of the deterministic twin.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must implement `kernel_channels`"
        )

    def _call(self, inputs, sample, sample_outputs):
        # Refuses what is smaller than the window, also once it is built.
        output_shape = self.compute_output_shape(inputs.shape)
        channels = self.channel_axis % len(inputs.shape)
        if 0 in (*inputs.shape[1:channels], *inputs.shape[channels + 1 :]):
            raise ValueError(
                "Inputs must have a position at least. Received: shape="
                f"{tuple(inputs.shape)}"
            )
        if inputs.shape[0] == 0:
            # TensorFlow's own have the inputs' shape then (oneDNN).
            return keras.ops.zeros(output_shape, self.compute_dtype)
        return super()._call(inputs, sample, sample_outputs)

    def broadcast_bias(self, bias):
        if self.channel_axis == -1:
            return bias
        return keras.ops.reshape(bias, (1, -1) + (1,) * self.rank)

    def compute_output_shape(self, input_shape):
        return tuple(self._twin_output_shape(input_shape))

    def get_config(self):
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in self.map_arguments},
        }


class VariationalConv(ConvolutionalLayer):
    """A random convolution; see the public layers."""

    map_arguments = (
        "filters",
        "kernel_size",
        "strides",
        "padding",
        "data_format",
        "dilation_rate",
        "groups",
    )

    def __init__(
        self,
        filters,
        kernel_size,
        strides=1,
        padding="valid",
        data_format=None,
        dilation_rate=1,
        groups=1,
        activation=None,
        use_bias=True,
        **kwargs,
    ):
        super().__init__(activation=activation, use_bias=use_bias, **kwargs)
        self._set_map(
            filters=_validation.positive_integer("filters", filters),
            kernel_size=kernel_size,
            strides=strides,
            padding=padding,
            data_format=data_format,
            dilation_rate=dilation_rate,
            groups=_validation.positive_integer("groups", groups),
        )

    @property
    def num_groups(self):
        """Number of groups of filters that see different channels."""
        return self.groups

    def kernel_channels(self, channels):
        if channels % self.groups:
            raise ValueError(
                "`groups` must divide the number of input channels. Received: "
                f"groups={self.groups} for {channels} channels"
            )
        return channels // self.groups, self.filters

    def apply_kernel(self, inputs, kernel):
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

    def _pad_causally(self, inputs):
        left = self.dilation_rate[0] * (self.kernel_size[0] - 1)
        paddings = [[0, 0]] * 3
        paddings[1 if self.channel_axis == -1 else 2] = [left, 0]
        return keras.ops.pad(inputs, paddings)

    def _subsample(self, inputs):
        steps = tuple(slice(None, None, stride) for stride in self.strides)
        if self.channel_axis == -1:
            return inputs[(slice(None), *steps)]
        return inputs[(slice(None), slice(None), *steps)]


class VariationalConvTranspose(ConvolutionalLayer):
    """A random transposed convolution; see the public layers."""

    map_arguments = (
        "filters",
        "kernel_size",
        "strides",
        "padding",
        "output_padding",
        "data_format",
        "dilation_rate",
    )
    unit_axes = (-2,)

    def __init__(
        self,
        filters,
        kernel_size,
        strides=1,
        padding="valid",
        output_padding=None,
        data_format=None,
        dilation_rate=1,
        activation=None,
        use_bias=True,
        **kwargs,
    ):
        super().__init__(activation=activation, use_bias=use_bias, **kwargs)
        self._set_map(
            filters=_validation.positive_integer("filters", filters),
            kernel_size=kernel_size,
            strides=strides,
            padding=padding,
            output_padding=output_padding,
            data_format=data_format,
            dilation_rate=dilation_rate,
        )
        self._check_output_padding()

    def _check_output_padding(self):
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
                    "With padding='same', `output_padding` must be 1 at least "
                    "where `kernel_size` is even. Received: output_padding="
                    f"{self.output_padding}, kernel_size={self.kernel_size}"
                )

    def kernel_channels(self, channels):
        return self.filters, channels

    def fan_in(self, kernel_shape):
        # Without strides; of the outputs that do not lie at an edge.
        return math.prod(self.kernel_size) * kernel_shape[-1]

    def apply_kernel(self, inputs, kernel):
        padding, output_padding = self.padding, self.output_padding
        if set(self.kernel_size) == {1} and max(self.strides) > 1:
            # Its gradient is that of a strided 1x1 convolution, which corrupts
            # memory (see `VariationalConv`). With zeros the kernel is larger.
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


class VariationalDepthwiseConv(ConvolutionalLayer):
    """A random convolution of each channel by itself; see the public layers.

    Keras calls the kernel's arguments `depthwise_*` here, and so does this.
    """

    map_arguments = (
        "kernel_size",
        "strides",
        "padding",
        "depth_multiplier",
        "data_format",
        "dilation_rate",
    )
    unit_axes = (-2, -1)
    _RENAMED = ("initializer", "regularizer", "constraint")

    def __init__(
        self,
        kernel_size,
        strides=1,
        padding="valid",
        depth_multiplier=1,
        data_format=None,
        dilation_rate=1,
        activation=None,
        use_bias=True,
        depthwise_initializer="glorot_uniform",
        depthwise_regularizer="gaussian_kl",
        depthwise_constraint=None,
        **kwargs,
    ):
        for name in self._RENAMED:
            if f"kernel_{name}" in kwargs:
                raise ValueError(
                    f"{type(self).__name__} takes `depthwise_{name}`, as "
                    f"Keras' layer does. Received: kernel_{name}"
                )
        super().__init__(
            activation=activation,
            use_bias=use_bias,
            kernel_initializer=depthwise_initializer,
            kernel_regularizer=depthwise_regularizer,
            kernel_constraint=depthwise_constraint,
            **kwargs,
        )
        self._set_map(
            kernel_size=kernel_size,
            strides=strides,
            padding=padding,
            depth_multiplier=_validation.positive_integer(
                "depth_multiplier", depth_multiplier
            ),
            data_format=data_format,
            dilation_rate=dilation_rate,
        )

    @property
    def depthwise_initializer(self):
        """Initializer of the kernel's means."""
        return self.kernel_initializer

    @property
    def depthwise_regularizer(self):
        """Regularizer of the kernel."""
        return self.kernel_regularizer

    @property
    def depthwise_constraint(self):
        """Constraint of the kernel's means."""
        return self.kernel_constraint

    @property
    def num_groups(self):
        """Number of groups of units that see different channels."""
        return self.kernel.shape[-2]

    def kernel_channels(self, channels):
        return channels, self.depth_multiplier

    def fan_in(self, kernel_shape):
        return math.prod(self.kernel_size)

    def regularizer_argument(self, name):
        prefix = "depthwise" if name == "kernel" else name
        return f"{prefix}_regularizer"

    def apply_kernel(self, inputs, kernel):
        return keras.ops.depthwise_conv(
            inputs,
            kernel,
            strides=self.strides,
            padding=self.padding,
            data_format=self.data_format,
            dilation_rate=self.dilation_rate,
        )

    def get_config(self):
        config = super().get_config()
        for name in self._RENAMED:
            config[f"depthwise_{name}"] = config.pop(f"kernel_{name}")
        return config
