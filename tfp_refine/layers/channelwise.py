"""Sums and products of outputs with a number for each channel.

On a CPU, TensorFlow broadcasts along a short last axis several times slower
than along a long one. So the numbers of few channels are first repeated along
the axis before it.
"""

import tensorflow as tf

# With more channels nothing is gained.
_FEW = 32


def add(outputs: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Adds `values`, broadcastable to the outputs `[B, ..., W, C]`."""
    return outputs + _repeated(values, outputs)


def multiply(outputs: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Multiplies by `values`, broadcastable to the outputs `[B, ..., W, C]`."""
    return outputs * _repeated(values, outputs)


def _repeated(values: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Repeats `[..., 1, C]` or `[C]` along the axis before the last."""
    width, channels = (1, 1, *values.shape)[-2:]
    is_row = width == 1 and channels is not None and 1 < channels < _FEW
    if len(like.shape) < 3 or not is_row:
        return values
    positions = like.shape[-2]
    if positions is None:
        positions = tf.shape(like)[-2]
    return values * tf.ones([positions, 1], values.dtype)
