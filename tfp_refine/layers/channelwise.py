"""Sums and products of outputs with a number for each channel.

On a CPU, TensorFlow broadcasts along a short last axis up to six times slower
than along a long one, so numbers are first repeated along the axis before it.
"""

import keras
import tensorflow as tf


def add(outputs: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Adds `values`, broadcastable to the outputs `[B, ..., W, C]`."""
    return outputs + _repeated(values, outputs)


def multiply(outputs: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Multiplies by `values`, broadcastable to the outputs `[B, ..., W, C]`."""
    return outputs * _repeated(values, outputs)


def _repeated(values: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Repeats `[..., 1, C]` or `[C]` along the axis before the last."""
    width, channels = (1, *values.shape)[-2:]
    if len(like.shape) < 3 or channels != like.shape[-1] or width != 1:
        return values
    lead, positions = keras.ops.shape(values)[:-2], keras.ops.shape(like)[-2]
    return keras.ops.broadcast_to(values, (*lead, positions, channels))
