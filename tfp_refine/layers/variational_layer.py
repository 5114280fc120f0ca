"""Base of layers that apply a random linear map."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfp_refine import regularizers
from tfp_refine.layers import argument_types
from tfp_refine.layers import channelwise
from tfp_refine.layers import docstrings
from tfp_refine.layers import linear_map
from tfp_refine.layers import posterior_layer
from tfp_refine.layers import pruning
from tfp_refine.layers import scopes


@docstrings.public_layer
class VariationalLayer(
    linear_map.LinearMap, pruning.PrunableUnits, posterior_layer.PosteriorLayer
):
    """Base of layers that apply a random linear map, a bias, an activation.

    A subclass defines the map (`apply_kernel`: a product, a convolution), and
    creates its weights in `build` through `add_variational_weight`. A class of
    `estimators` defines how its random outputs are drawn.

    {args}

    {call_arguments}

    {errors}
    """

    @property
    def channel_axis(self) -> int:
        """Axis of the channels, of inputs and of outputs."""
        return -1

    @property
    def signed_axes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Axes of inputs and of outputs along which Flipout draws signs.

        Of the inputs those that a unit sums over, of the outputs those that
        count units; along the first axis there are signs too.
        """
        return (self.channel_axis,), (self.channel_axis,)

    def __init__(
        self,
        *,
        activation: argument_types.Activation = None,
        use_bias: bool = True,
        kernel_initializer: argument_types.Initializer = "glorot_uniform",
        bias_initializer: argument_types.Initializer = "zeros",
        kernel_regularizer: argument_types.Regularizer = "gaussian_kl",
        bias_regularizer: argument_types.Regularizer = "gaussian_kl",
        activity_regularizer: argument_types.Regularizer = None,
        kernel_constraint: argument_types.Constraint = None,
        bias_constraint: argument_types.Constraint = None,
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
        super().__init__(
            **argument_types.passed_to(posterior_layer.PosteriorLayer, locals())
        )
        self.activation = keras.activations.get(activation)
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_constraint = keras.constraints.get(kernel_constraint)
        self.bias_constraint = keras.constraints.get(bias_constraint)
        self.supports_masking = True
        self.set_posterior("kernel", kernel_regularizer, kernel_posterior)
        self.set_posterior("bias", bias_regularizer, bias_posterior)

    # Weights.

    def add_variational_weight(
        self,
        name: str,
        shape: tuple[int, ...],
        initializer: argument_types.Initializer = None,
    ) -> posterior_layer.Weight:
        """Creates the kernel or the bias from this layer's arguments.

        Create the kernel first: the bias shares its fan-in.

        Args:
            name: `"kernel"` or `"bias"`.
            shape: Shape of the weight tensor.
            initializer: Initializer in place of the layer's.

        Returns:
            weight: `VariationalWeight`, or a point estimate.
        """
        if name == "kernel":
            self._fan_in = self.fan_in(shape)
        regularizer = getattr(self, f"{name}_regularizer")
        is_point = getattr(self, f"{name}_posterior") is None
        has_penalty = is_point and not regularizers.is_kl(regularizer)
        loc = self.add_weight(
            name=name if is_point else f"{name}_loc",
            shape=shape,
            initializer=initializer or getattr(self, f"{name}_initializer"),
            constraint=getattr(self, f"{name}_constraint"),
            regularizer=regularizer if has_penalty else None,
            autocast=is_point,
        )
        axes = self.unit_axes if name == "kernel" else tuple(range(len(shape)))
        return self.keep_weight(name, name, loc, self._fan_in, axes)

    @property
    def kernel(self) -> keras.Variable:
        """Variable of the kernel's mean, as `keras.layers.Dense.kernel`."""
        return self._weight_tensors["kernel"].loc

    @property
    def bias(self) -> keras.Variable | None:
        """Variable of the bias' mean, or `None` without a bias."""
        return self._weight_tensors["bias"].loc if self.use_bias else None

    # Forward pass.

    def apply_kernel(self, inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        """Applies the layer's linear map with the given kernel.

        Args:
            inputs: Inputs of the layer, `[B, ...]`.
            kernel: Tensor of the kernel's shape.

        Returns:
            outputs: Pre-activations without bias, `[B, ...]`.

        Raises:
            NotImplementedError: If a subclass does not implement it.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must implement `apply_kernel`"
        )

    def sample_outputs(self, inputs: tf.Tensor) -> tf.Tensor:
        """Draws the pre-activations.

        Args:
            inputs: Inputs of the layer, `[B, ...]`.

        Returns:
            outputs: Random pre-activations, `[B, ...]`.

        Raises:
            NotImplementedError: If a subclass has no estimator.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must implement `sample_outputs`"
        )

    def mean_outputs(self, inputs: tf.Tensor) -> tf.Tensor:
        """Computes the pre-activations at the posterior means.

        Args:
            inputs: Inputs of the layer, `[B, ...]`.

        Returns:
            outputs: Pre-activations, `[B, ...]`.
        """
        return self.apply_weights(
            inputs, lambda weight: weight.mean(self.compute_dtype)
        )

    def apply_weights(
        self,
        inputs: tf.Tensor,
        value: Callable[[Any], tf.Tensor | None],
    ) -> Any:
        """Applies a kernel, and adds a bias: the `value` of each weight tensor.

        Args:
            inputs: Inputs, `[B, ...]`.
            value: Function of a weight to its tensor, or to `None` for zero.

        Returns:
            outputs: Pre-activations, `[B, ...]`; `None` if all values are.
        """
        outputs = None
        for weight in self.weight_tensors:
            tensor = value(weight)
            if tensor is None:
                continue
            if weight.name == "kernel":
                outputs = self.apply_kernel(inputs, tensor)
            else:
                bias = self.broadcast_bias(tensor)
                outputs = (
                    bias if outputs is None else channelwise.add(outputs, bias)
                )
        return outputs

    def broadcast_bias(self, bias: tf.Tensor) -> tf.Tensor:
        """Reshapes the bias so that it can be added to the outputs.

        Args:
            bias: Tensor of the bias' shape.

        Returns:
            bias: Tensor that is broadcastable to the outputs.
        """
        return bias

    def call(self, inputs: tf.Tensor, sample: bool | None = None) -> tf.Tensor:
        return self._call(inputs, sample, self.sample_outputs)

    def _call(
        self,
        inputs: tf.Tensor,
        sample: bool | None,
        sample_outputs: Callable[[tf.Tensor], tf.Tensor],
    ) -> tf.Tensor:
        """Calls the layer; `sample_outputs` computes random outputs."""
        self.attach_kl()
        inputs = keras.ops.cast(inputs, self.compute_dtype)
        scopes.notify(self, inputs)
        if scopes.is_sampling(sample, self.sample):
            outputs = sample_outputs(inputs)
        else:
            outputs = self.mean_outputs(inputs)
        if self.activation is not None:
            outputs = self.activation(outputs)
        return outputs

    # Configuration.

    def get_config(self) -> dict[str, Any]:
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "activation": keras.activations.serialize(self.activation),
            "use_bias": self.use_bias,
            "kernel_initializer": serialize(self.kernel_initializer),
            "bias_initializer": serialize(self.bias_initializer),
            "kernel_constraint": serialize(self.kernel_constraint),
            "bias_constraint": serialize(self.bias_constraint),
            **self.posterior_config("kernel", "bias"),
        }
