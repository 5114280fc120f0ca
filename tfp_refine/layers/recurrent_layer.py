"""Recurrent layers that are called with a draw of their weights."""

import keras

from tfp_refine.layers import sampled_layer


@keras.saving.register_keras_serializable(package="tfp_refine")
class RecurrentLayer(sampled_layer.SampledLayer):
    """Base of recurrent layers with a kernel for inputs and one for states."""

    parts = (
        ("kernel", "kernel"),
        ("recurrent", "recurrent_kernel"),
        ("bias", "bias"),
    )
    sizes = ("units",)

    def owner(self):
        return self.layer.cell

    def fan_in(self, part):
        if part == "recurrent":
            return self.layer.units
        return self.owner().kernel.shape[0]

    def build(self, inputs_shape, initial_state_shape=None):
        del initial_state_shape
        if inputs_shape[-1] == 0:
            raise ValueError(
                "A step must have a feature. Received: shape="
                f"{tuple(inputs_shape)}"
            )
        super().build(inputs_shape)
        self.input_spec = keras.layers.InputSpec(
            ndim=3, axes={-1: inputs_shape[-1]}
        )

    def call(
        self,
        inputs,
        sample=None,
        mask=None,
        training=None,
        initial_state=None,
    ):
        if inputs.shape[1] == 0:
            raise ValueError(
                "A sequence must have a step. Received: shape="
                f"{tuple(inputs.shape)}"
            )
        return super().call(
            inputs,
            sample,
            mask=mask,
            training=training,
            initial_state=initial_state,
        )

    def compute_output_shape(self, inputs_shape, initial_state_shape=None):
        return self.layer.compute_output_shape(
            inputs_shape, initial_state_shape
        )
