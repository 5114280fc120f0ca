"""The map between a scale and the unconstrained value that is trained."""

import math

import tensorflow as tf
import tensorflow_probability as tfp

# softplus(-20) = 2e-9: below it float32 training has no gradient left.
_MIN_UNTRANSFORMED = -20.0


def inverse(scale: tf.Tensor) -> tf.Tensor:
    """Computes the inverse softplus of `scale`, at least -20."""
    scale = tf.convert_to_tensor(scale)
    return tf.maximum(
        tfp.math.softplus_inverse(scale),
        tf.constant(_MIN_UNTRANSFORMED, scale.dtype),
    )


def inverse_of_float(scale: float) -> float:
    """Computes the same for one positive number, without TensorFlow."""
    return max(scale + math.log(-math.expm1(-scale)), _MIN_UNTRANSFORMED)
