"""Recurrent layers whose weights have posteriors."""

from typing import Any

import keras
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine.layers import argument_checks
from tfp_refine.layers import argument_types
from tfp_refine.layers import docstrings
from tfp_refine.layers import sampled_layer


@docstrings.public_layer
class RecurrentLayer(sampled_layer.SampledLayer):
    """Base of recurrent layers with a kernel for inputs and one for states.

    `keras.layers.Bidirectional` can wrap them.

    {args}

    {errors}
    """

    parts = (
        ("kernel", "kernel"),
        ("recurrent", "recurrent_kernel"),
        ("bias", "bias"),
    )

    @property
    def go_backwards(self) -> bool:
        """True if the sequence is read from its end."""
        return self.layer.go_backwards

    @property
    def return_sequences(self) -> bool:
        """True if the outputs of all steps are returned."""
        return self.layer.return_sequences

    @property
    def return_state(self) -> bool:
        """True if the last states are returned as well."""
        return self.layer.return_state

    @property
    def stateful(self) -> bool:
        """True if a batch starts from the last states of the last one."""
        return self.layer.stateful

    @property
    def zero_output_for_mask(self) -> bool:
        """True if outputs of masked steps are zeros."""
        return self.layer.zero_output_for_mask

    @zero_output_for_mask.setter
    def zero_output_for_mask(self, value: bool) -> None:
        self.layer.zero_output_for_mask = value

    @property
    def states(self) -> Any:
        """The last states, of a stateful layer."""
        return self.layer.states

    def reset_state(self) -> None:
        """Forgets the last states, of a stateful layer."""
        self.layer.reset_state()

    def owner(self) -> keras.layers.Layer:
        return self.layer.cell

    def fan_in(self, part: str) -> int:
        if part == "recurrent":
            return self.layer.units
        return self.owner().kernel.shape[0]

    def build(
        self,
        inputs_shape: argument_types.Shape,
        initial_state_shape: Any = None,
    ) -> None:
        del initial_state_shape
        if inputs_shape[-1] == 0:
            raise ValueError(
                "A step must have at least one feature. Received: shape="
                f"{tuple(inputs_shape)}"
            )
        for name in ("activation", "recurrent_activation"):
            argument_checks.check_activation(
                name, getattr(self.layer, name), self.layer.units
            )
        super().build(inputs_shape)
        self.input_spec = keras.layers.InputSpec(
            ndim=3, axes={-1: inputs_shape[-1]}
        )

    def call(
        self,
        inputs: tf.Tensor,
        sample: bool | None = None,
        mask: tf.Tensor | None = None,
        training: bool | None = None,
        initial_state: Any = None,
    ) -> Any:
        if inputs.shape[1] == 0:
            raise ValueError(
                "A sequence must have at least one step. Received: shape="
                f"{tuple(inputs.shape)}"
            )
        return self._call(
            inputs,
            sample,
            mask=mask,
            training=training,
            initial_state=initial_state,
        )

    def compute_output_shape(
        self,
        inputs_shape: argument_types.Shape,
        initial_state_shape: Any = None,
    ) -> Any:
        return self.layer.compute_output_shape(
            inputs_shape, initial_state_shape
        )

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "use_cudnn": self.layer.use_cudnn}


@docstrings.public_layer
class GRUReparameterization(RecurrentLayer):
    """GRU layer that draws all of its weights once for each call.

    {recurrent}

    {sequences}
    """

    keras_layer = keras.layers.GRU

    def __init__(
        self,
        units: int,
        activation: argument_types.Activation = "tanh",
        recurrent_activation: argument_types.Activation = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: argument_types.Initializer = "glorot_uniform",
        recurrent_initializer: argument_types.Initializer = "orthogonal",
        bias_initializer: argument_types.Initializer = "zeros",
        kernel_regularizer: argument_types.Regularizer = "gaussian_kl",
        recurrent_regularizer: argument_types.Regularizer = "gaussian_kl",
        bias_regularizer: argument_types.Regularizer = "gaussian_kl",
        activity_regularizer: argument_types.Regularizer = None,
        kernel_constraint: argument_types.Constraint = None,
        recurrent_constraint: argument_types.Constraint = None,
        bias_constraint: argument_types.Constraint = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        reset_after: bool = True,
        use_cudnn: bool | str = "auto",
        *,
        zero_output_for_mask: bool = False,
        kernel_posterior: argument_types.Posterior = "mean_field",
        recurrent_posterior: argument_types.Posterior = "mean_field",
        bias_posterior: argument_types.Posterior = "mean_field",
        num_train_examples: int | None = None,
        kl_scale: float = 1.0,
        sample: bool = True,
        name: str | None = None,
        dtype: argument_types.DType = None,
        trainable: bool = True,
    ) -> None:
        units = _validation.positive_integer("units", units)
        super().__init__(**self.grouped(locals()))


@docstrings.public_layer
class LSTMReparameterization(RecurrentLayer):
    """LSTM layer that draws all of its weights once for each call.

    {recurrent}

    {sequences}
    """

    keras_layer = keras.layers.LSTM

    def __init__(
        self,
        units: int,
        activation: argument_types.Activation = "tanh",
        recurrent_activation: argument_types.Activation = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: argument_types.Initializer = "glorot_uniform",
        recurrent_initializer: argument_types.Initializer = "orthogonal",
        bias_initializer: argument_types.Initializer = "zeros",
        unit_forget_bias: bool = True,
        kernel_regularizer: argument_types.Regularizer = "gaussian_kl",
        recurrent_regularizer: argument_types.Regularizer = "gaussian_kl",
        bias_regularizer: argument_types.Regularizer = "gaussian_kl",
        activity_regularizer: argument_types.Regularizer = None,
        kernel_constraint: argument_types.Constraint = None,
        recurrent_constraint: argument_types.Constraint = None,
        bias_constraint: argument_types.Constraint = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        use_cudnn: bool | str = "auto",
        *,
        zero_output_for_mask: bool = False,
        kernel_posterior: argument_types.Posterior = "mean_field",
        recurrent_posterior: argument_types.Posterior = "mean_field",
        bias_posterior: argument_types.Posterior = "mean_field",
        num_train_examples: int | None = None,
        kl_scale: float = 1.0,
        sample: bool = True,
        name: str | None = None,
        dtype: argument_types.DType = None,
        trainable: bool = True,
    ) -> None:
        units = _validation.positive_integer("units", units)
        super().__init__(**self.grouped(locals()))
