"""The linear map of the dense variational layers."""

import keras

from tfp_refine import _validation
from tfp_refine.layers import variational_layer


class VariationalDense(variational_layer.VariationalLayer):
    """A random product `inputs @ kernel + bias`; see the public layers."""

    channel_axis = -1

    def __init__(self, units, activation=None, use_bias=True, **kwargs):
        super().__init__(activation=activation, use_bias=use_bias, **kwargs)
        self.units = _validation.positive_integer("units", units)
        self.input_spec = keras.layers.InputSpec(min_ndim=2)

    def build(self, input_shape):
        input_dim = input_shape[-1]
        if not input_dim:
            raise ValueError(
                "The last axis of the inputs must have a known size above 0. "
                f"Received: input_shape={tuple(input_shape)}"
            )
        self.add_variational_weight("kernel", (input_dim, self.units))
        if self.use_bias:
            self.add_variational_weight("bias", (self.units,))
        self.input_spec = keras.layers.InputSpec(
            min_ndim=2, axes={-1: input_dim}
        )

    def apply_kernel(self, inputs, kernel):
        return keras.ops.matmul(inputs, kernel)

    def patches(self, inputs):
        return keras.ops.reshape(
            inputs, (keras.ops.shape(inputs)[0], -1, 1, inputs.shape[-1])
        )

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)

    def get_config(self):
        return {**super().get_config(), "units": self.units}
