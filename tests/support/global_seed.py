"""Seeds that all tests start from, set at little cost."""

from unittest import mock

import keras
import tensorflow as tf


def set_to(seed: int) -> None:
    """Seeds Python, NumPy, Keras and TensorFlow.

    `keras.utils.set_random_seed` does the same, but always calls
    `tf.random.set_seed`, which discards all compiled kernels and functions.
    Here TensorFlow's seed is set only if it differs. Eager operations of
    TensorFlow that draw without a seed therefore do not start anew; neither
    the library nor Keras has any.

    Args:
        seed: The seed.
    """
    with mock.patch.object(tf.random, "set_seed", new=_keep):
        keras.utils.set_random_seed(seed)
    current, _ = tf.compat.v1.get_seed(0)
    if current != seed:
        tf.random.set_seed(seed)


def _keep(seed: int) -> None:
    """Does nothing, in place of `tf.random.set_seed`."""
