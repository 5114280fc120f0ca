"""Dense layers whose weights have posteriors."""

from typing import Any

import keras
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine.layers import argument_types
from tfp_refine.layers import docstrings
from tfp_refine.layers import estimators
from tfp_refine.layers import variational_layer


class VariationalDense(variational_layer.VariationalLayer):
    """A random product `inputs @ kernel + bias`; see the public layers."""

    keras_layer = keras.layers.Dense

    def __init__(
        self,
        units: int,
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
        super().__init__(**argument_types.passed(locals(), "units"))
        self.units = _validation.positive_integer("units", units)
        self.input_spec = keras.layers.InputSpec(min_ndim=2)

    def build(self, input_shape: argument_types.Shape) -> None:
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

    def apply_kernel(self, inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        return keras.ops.matmul(inputs, kernel)

    def patches(self, inputs: tf.Tensor) -> tf.Tensor:
        return keras.ops.reshape(
            inputs, (keras.ops.shape(inputs)[0], -1, 1, inputs.shape[-1])
        )

    def compute_output_shape(
        self, input_shape: argument_types.Shape
    ) -> argument_types.Shape:
        return (*input_shape[:-1], self.units)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units}


@docstrings.public_layer
class DenseReparameterization(estimators.Reparameterization, VariationalDense):
    """Dense layer whose weights are drawn once for each call.

    {reparameterization}

    {dense}

    Example:

    ```python
    layer = tfp_refine.layers.DenseReparameterization(
        10, num_train_examples=60000
    )
    ```

    {blundell}
    """


@docstrings.public_layer
class DenseLocalReparameterization(
    estimators.LocalReparameterization, VariationalDense
):
    """Dense layer that draws each pre-activation from its Gaussian marginal.

    With `x` the inputs, an output is `N(x @ loc, x**2 @ scale**2)`, independent
    for each example: two products, little random noise, and the gradient with
    the least variance of the three dense layers. With inputs of more than two
    axes, positions of one example are independent too.

    {dense}

    Example:

    ```python
    layer = tfp_refine.layers.DenseLocalReparameterization(
        10, num_train_examples=60000
    )
    ```

    {kingma}
    """


@docstrings.public_layer
class DenseFlipout(estimators.Flipout, VariationalDense):
    """Dense layer that decorrelates one draw of the weights by random signs.

    Each example sees the weights' one deviation from the means with signs of
    its own. The outputs of each example have the exact distribution for any
    posterior symmetric about its mean. Two products, and a gradient with far
    less variance than with one draw for the whole batch.

    {dense}

    Example:

    ```python
    layer = tfp_refine.layers.DenseFlipout(10, num_train_examples=60000)
    ```

    {wen}
    """
