"""Recurrent layers that are called with a draw of their weights."""

import keras

from tfp_refine.layers import sampled_layer


@keras.saving.register_keras_serializable(package="tfp_refine")
class RecurrentLayer(sampled_layer.SampledLayer):
    """Base of recurrent layers with a kernel for inputs and one for states.

    They can be the layers of a `keras.layers.Bidirectional`.
    """

    parts = (
        ("kernel", "kernel"),
        ("recurrent", "recurrent_kernel"),
        ("bias", "bias"),
    )
    sizes = ("units",)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if self.go_backwards:
            # Far from the draws of the layer of the other direction, of which
            # Keras makes this one, with its seed.
            state = self.seed_generator.state
            state.assign(keras.ops.add(state, [0, 2**31]))

    @property
    def go_backwards(self):
        """Whether steps are taken from the last to the first."""
        return self.layer.go_backwards

    @property
    def return_sequences(self):
        """Whether all steps' outputs are returned, not the last one's."""
        return self.layer.return_sequences

    @property
    def return_state(self):
        """Whether the last states are returned as well."""
        return self.layer.return_state

    @property
    def stateful(self):
        """Whether a batch begins with the last states of the one before."""
        return self.layer.stateful

    @property
    def zero_output_for_mask(self):
        """Whether outputs of masked steps are zeros."""
        return self.layer.zero_output_for_mask

    @zero_output_for_mask.setter
    def zero_output_for_mask(self, value):
        self.layer.zero_output_for_mask = value

    @property
    def states(self):
        """The last states, of a stateful layer."""
        return self.layer.states

    def reset_state(self):
        """Forgets the last states, of a stateful layer."""
        self.layer.reset_state()

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
