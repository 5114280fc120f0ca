"""Three ways to draw the outputs of a random linear map.

A layer inherits from one of them and from a class with `apply_kernel`. All give
each output the same mean and variance. They differ in the draws that a batch
shares, and so in the variance of a gradient and in cost.
"""

import keras
import tensorflow as tf

from tfp_refine.layers import channelwise
from tfp_refine.layers import noise as random_draws
from tfp_refine.layers import variational_layer

# Keeps the gradient of the root finite where the variance is zero.
_VARIANCE_FLOOR = 1e-12


class Reparameterization(variational_layer.VariationalLayer):
    """One draw of the weights for each call, shared by the batch."""

    draws_weights = True

    def sample_outputs(self, inputs: tf.Tensor) -> tf.Tensor:
        """Computes pre-activations with one draw of the weights."""
        return self.apply_weights(
            inputs,
            lambda weight: weight.sample(
                self.seed_generator, self.compute_dtype
            ),
        )


class LocalReparameterization(variational_layer.VariationalLayer):
    """Independent draws of each pre-activation from its exact marginal."""

    draws_weights = False

    def sample_outputs(self, inputs: tf.Tensor) -> tf.Tensor:
        """Computes pre-activations with independent noise."""
        means = self.mean_outputs(inputs)
        return self.add_noise(inputs, with_correlations(self, inputs, means))

    def add_noise(self, inputs: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Adds the weights' noise to `outputs`, the mean pre-activations."""
        # float16 overflows at x = 256 and underflows at a scale of 2e-4.
        dtype = (
            "float32" if self.compute_dtype == "float16" else self.compute_dtype
        )
        variance = self.apply_weights(
            keras.ops.square(keras.ops.cast(inputs, dtype)),
            lambda weight: weight.variance(dtype),
        )
        if variance is None:
            return outputs
        scale = keras.ops.sqrt(variance + _VARIANCE_FLOOR)
        noise = random_draws.standard_normal(
            keras.ops.shape(outputs), dtype, self.seed_generator
        )
        return outputs + keras.ops.cast(scale * noise, self.compute_dtype)


class Flipout(variational_layer.VariationalLayer):
    """One draw of the weights, with random signs for each example.

    The signs are constant over all axes but the first and `signed_axes`, so
    that each example sees one consistent draw of the weights.
    """

    draws_weights = False

    def sample_outputs(self, inputs: tf.Tensor) -> tf.Tensor:
        """Computes pre-activations with a sign-flipped draw of the weights."""
        of_inputs, of_outputs = self.signed_axes
        for weight in self.weight_tensors:
            mean = weight.mean(self.compute_dtype)
            noise = weight.perturbation(self.seed_generator, self.compute_dtype)
            if weight.name == "kernel":
                outputs = self.apply_kernel(inputs, mean)
                signs = self._signs(outputs, of_outputs)
                if noise is not None:
                    flipped = channelwise.multiply(
                        inputs, self._signs(inputs, of_inputs)
                    )
                    outputs = outputs + channelwise.multiply(
                        self.apply_kernel(flipped, noise), signs
                    )
            else:
                # One sum over all positions, of the mean and the noise.
                bias = self.broadcast_bias(mean)
                if noise is not None:
                    bias = bias + signs * self.broadcast_bias(noise)
                outputs = channelwise.add(outputs, bias)
        return with_correlations(self, inputs, outputs)

    def _signs(self, like: tf.Tensor, axes: tuple[int, ...]) -> tf.Tensor:
        """Draws -1 or +1 for each example and position along axes of `like`."""
        shape = keras.ops.shape(like)
        signed = {0, *(axis % len(shape) for axis in axes)}
        shape = tuple(
            size if axis in signed else 1 for axis, size in enumerate(shape)
        )
        # The number of examples may be unknown, but not that along the last
        # axis of a draw.
        drawn = shape if len(shape) > 1 else (*shape, 1)
        signs = random_draws.random_signs(
            drawn, like.dtype, self.seed_generator
        )
        return signs if drawn is shape else keras.ops.reshape(signs, shape)


def with_correlations(
    layer: variational_layer.VariationalLayer,
    inputs: tf.Tensor,
    outputs: tf.Tensor,
) -> tf.Tensor:
    """Adds the effect of the correlated parts of the weights to the outputs.

    Their coefficients are drawn once for each example, and shared by all of its
    units and positions, as if each example had its own draw of the weights.
    """
    dtype = layer.compute_dtype
    ones = (1,) * (len(outputs.shape) - 1)
    for weight in layer.weight_tensors:
        if weight.factor is None:
            continue
        # The gradient of a stack that is taken apart is one tensor, where that
        # of its parts, one by one, is as many of its size.
        factors = tf.unstack(
            keras.ops.cast(keras.ops.convert_to_tensor(weight.factor), dtype)
        )
        draws = random_draws.standard_normal(
            (len(factors), keras.ops.shape(outputs)[0]),
            dtype,
            layer.seed_generator,
        )
        draws = tf.unstack(draws / len(factors) ** 0.5)
        for draw, factor in zip(draws, factors, strict=True):
            of_factor = (
                layer.apply_kernel(inputs, factor)
                if weight.name == "kernel"
                else layer.broadcast_bias(factor)
            )
            outputs = outputs + keras.ops.reshape(draw, (-1, *ones)) * of_factor
    return outputs
