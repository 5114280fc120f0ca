"""Layers with multiplicative normalizing flows."""

import dataclasses
import functools
from typing import Any

import keras
import tensorflow as tf

from tfp_refine.layers import argument_types
from tfp_refine.layers import channelwise
from tfp_refine.layers import convolutions
from tfp_refine.layers import dense
from tfp_refine.layers import docstrings
from tfp_refine.layers import estimators
from tfp_refine.layers import mean_field_posterior
from tfp_refine.layers import multiplicative_posterior


class MultiplicativeLayer(estimators.LocalReparameterization):
    """Base of layers with multipliers; see the public layers.

    A subclass names the axis of the kernel that the multipliers go along,
    `z_axis`, and applies them, in `multiplied_means`.
    """

    z_axis: int

    def __init__(self, **arguments: Any) -> None:
        flow = multiplicative_posterior.FlowSettings(
            **{
                field.name: arguments.pop(field.name)
                for field in dataclasses.fields(
                    multiplicative_posterior.FlowSettings
                )
            }
        )
        bias_posterior = arguments["bias_posterior"]
        if isinstance(bias_posterior, str) and bias_posterior == "mean_field":
            arguments["bias_posterior"] = (
                mean_field_posterior.MeanFieldPosterior(flow.initial_scale)
            )
        super().__init__(
            kernel_posterior=multiplicative_posterior.MultiplicativePosterior(
                flow, self.z_axis, arguments["seed"]
            ),
            **arguments,
        )
        self._flow = flow

    @property
    def log_var_init(self) -> float:
        """Initial log variance of the weights given the multipliers."""
        return self._flow.log_var_init

    @property
    def max_std(self) -> float | None:
        """Largest standard deviation of weights in the outputs, or `None`."""
        return self._flow.max_std

    @property
    def inference_estimator(self) -> str:
        """Estimator that draws the outputs in inference."""
        return self._flow.inference_estimator

    def call(
        self,
        inputs: tf.Tensor,
        sample: bool | None = None,
        training: bool | None = None,
    ) -> tf.Tensor:
        sample_outputs = self.sample_outputs
        shares_draw = self.inference_estimator == "reparameterization"
        if shares_draw and not training:
            sample_outputs = functools.partial(
                estimators.Reparameterization.sample_outputs, self
            )
        return self._call(inputs, sample, sample_outputs)

    def sample_outputs(self, inputs: tf.Tensor) -> tf.Tensor:
        """Draws pre-activations, with multipliers for each example."""
        kernel = self._weight_tensors["kernel"]
        if not isinstance(
            kernel, multiplicative_posterior.MultiplicativeWeight
        ):
            return super().sample_outputs(inputs)
        batch_size = keras.ops.shape(inputs)[0]
        z, _ = kernel.draw_z((batch_size,), self.seed_generator)
        loc = keras.ops.cast(
            keras.ops.convert_to_tensor(kernel.loc), self.compute_dtype
        )
        outputs = self.multiplied_means(
            inputs, loc, keras.ops.cast(z, self.compute_dtype)
        )
        if self.use_bias:
            bias = self._weight_tensors["bias"].mean(self.compute_dtype)
            outputs = channelwise.add(outputs, self.broadcast_bias(bias))
        outputs = estimators.with_correlations(self, inputs, outputs)
        return self.add_noise(inputs, outputs)

    def multiplied_means(
        self, inputs: tf.Tensor, loc: tf.Tensor, z: tf.Tensor
    ) -> tf.Tensor:
        """Applies the kernel's means and multipliers to inputs.

        Args:
            inputs: Inputs of the layer, `[B, ..., D]`.
            loc: Means of the kernel, `[..., D, U]`.
            z: Multipliers of the inputs or the outputs, `[B, D]` or `[B, U]`.

        Returns:
            outputs: Without bias and noise, `[B, ..., U]`.

        Raises:
            NotImplementedError: If a subclass does not implement it.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must implement `multiplied_means`"
        )

    def get_config(self) -> dict[str, Any]:
        config = {**super().get_config(), **dataclasses.asdict(self._flow)}
        del config["kernel_posterior"]  # not an argument
        return config


@docstrings.public_layer
class DenseMNF(MultiplicativeLayer, dense.VariationalDense):
    """Dense layer whose posterior is a multiplicative normalizing flow.

    `W[i, j] ~ N(z[i] * loc[i, j], scale[i, j]**2)`: the weights of an input
    share a random multiplier, and a normalizing flow couples the multipliers.
    So weights are correlated, and not Gaussian, at the cost of a few small
    products. Each example has its own multipliers. Given these, its
    pre-activations are drawn as in `DenseLocalReparameterization`, or in
    inference from one draw of the weights for the batch.

    {dense}

    Example:

    ```python
    layer = tfp_refine.layers.DenseMNF(10, num_train_examples=60000)
    ```

    {louizos}
    """

    z_axis = 0

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
        bias_posterior: argument_types.Posterior = "mean_field",
        flow_length: int = 2,
        flow_units: int = 50,
        auxiliary_flow_length: int = 2,
        auxiliary_flow_units: int = 100,
        masks: str = "random",
        auxiliary: str = "log_precision",
        log_var_init: float = -9.0,
        z_var_init: float = 0.01,
        max_std: float | None = None,
        inference_estimator: str = "local_reparameterization",
        num_train_examples: int | None = None,
        kl_scale: float = 1.0,
        sample: bool = True,
        seed: int | None = None,
        name: str | None = None,
        dtype: argument_types.DType = None,
        trainable: bool = True,
    ) -> None:
        super().__init__(**argument_types.passed(locals()))

    def multiplied_means(
        self, inputs: tf.Tensor, loc: tf.Tensor, z: tf.Tensor
    ) -> tf.Tensor:
        ones = (1,) * (len(inputs.shape) - 2)
        z = keras.ops.reshape(z, (-1, *ones, z.shape[-1]))
        return self.apply_kernel(channelwise.multiply(inputs, z), loc)


@docstrings.public_layer
class Conv2DMNF(MultiplicativeLayer, convolutions.VariationalConv):
    """2D convolution whose posterior is a multiplicative normalizing flow.

    `W[..., k] ~ N(z[k] * loc[..., k], scale[..., k]**2)`: the weights of a
    filter share a random multiplier, and a normalizing flow couples the
    multipliers of the filters. The bias is not multiplied. Each example has its
    own multipliers. Given these, its pre-activations are drawn as in
    `Conv2DLocalReparameterization`, or in inference from one draw of the
    weights for the batch.

    {conv}

    {louizos}
    """

    keras_layer = keras.layers.Conv2D
    z_axis = -1

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
        bias_posterior: argument_types.Posterior = "mean_field",
        flow_length: int = 2,
        flow_units: int = 50,
        auxiliary_flow_length: int = 2,
        auxiliary_flow_units: int = 100,
        masks: str = "random",
        auxiliary: str = "log_precision",
        log_var_init: float = -9.0,
        z_var_init: float = 0.01,
        max_std: float | None = None,
        inference_estimator: str = "local_reparameterization",
        num_train_examples: int | None = None,
        kl_scale: float = 1.0,
        sample: bool = True,
        seed: int | None = None,
        name: str | None = None,
        dtype: argument_types.DType = None,
        trainable: bool = True,
    ) -> None:
        super().__init__(**argument_types.passed(locals()))

    def multiplied_means(
        self, inputs: tf.Tensor, loc: tf.Tensor, z: tf.Tensor
    ) -> tf.Tensor:
        shape = [1] * (self.rank + 2)
        shape[0], shape[self.channel_axis] = -1, z.shape[-1]
        outputs = self.apply_kernel(inputs, loc)
        return channelwise.multiply(outputs, keras.ops.reshape(z, shape))
