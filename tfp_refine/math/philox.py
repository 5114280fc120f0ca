"""Random draws from seeds, all by the algorithm Philox.

TensorFlow's own choice of an algorithm is Philox too, with the same numbers.
But under XLA on a CPU such a draw takes 40 times as long as one by its name,
which takes more ops to make its key: 7 microseconds a draw elsewhere. So all
draws of the package are made here, by name under XLA alone.
"""

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def normal(
    shape: Sequence[Any] | tf.Tensor, seed: Any, dtype: Any = tf.float32
) -> tf.Tensor:
    """Draws standard normal numbers from a seed, `[2]`."""
    return tf.random.stateless_normal(
        shape, seed, dtype=dtype, alg=_algorithm()
    )


def box_muller(
    shape: Sequence[int], seed: Any, dtype: Any = tf.float32
) -> tf.Tensor:
    """Draws standard normal numbers from a seed, `[2]`, of a static shape.

    They are others than those of `normal`, which on a CPU takes twice as long:
    its logarithms and cosines are not vectorized. Under XLA they are its own.

    Reference:
        - [Box and Muller, 1958](https://doi.org/10.1214/aoms/1177706645)
    """
    if is_under_xla():
        return normal(shape, seed, dtype)
    size = math.prod(shape)
    pairs = uniform([2, (size + 1) // 2], seed, dtype)
    radius = tf.sqrt(-2.0 * tf.math.log(1.0 - pairs[0]))  # of (0, 1]
    angle = 2.0 * math.pi * pairs[1]
    numbers = [radius * tf.cos(angle), radius * tf.sin(angle)]
    return tf.reshape(tf.concat(numbers, axis=0)[:size], shape)


def uniform(
    shape: Sequence[Any] | tf.Tensor,
    seed: Any,
    dtype: Any = tf.float32,
    minval: Any = 0,
    maxval: Any = None,
) -> tf.Tensor:
    """Draws uniform numbers in `[minval, maxval)` from a seed, `[2]`.

    Integers may have all values, if `minval` and `maxval` are `None`.
    """
    return tf.random.stateless_uniform(
        shape, seed, minval, maxval, dtype, alg=_algorithm()
    )


def dropout(
    x: tf.Tensor, rate: float, seed: Any, noise_shape: Any = None
) -> tf.Tensor:
    """Sets entries to zero, and scales the others by `1 / (1 - rate)`."""
    return tf.nn.experimental.stateless_dropout(
        x, rate, seed, rng_alg=_algorithm(), noise_shape=noise_shape
    )


def shuffle(value: tf.Tensor, seed: Any) -> tf.Tensor:
    """Permutes a tensor along its first axis, by a seed, `[2]`."""
    return tf.random.experimental.stateless_shuffle(
        value, seed, alg=_algorithm()
    )


def split(seed: Any, num: int) -> tf.Tensor:
    """Makes `num` seeds of one, `[num, 2]`."""
    return tf.random.experimental.stateless_split(seed, num, alg=_algorithm())


def fold_in(seed: Any, data: Any) -> tf.Tensor:
    """Makes a seed of a seed and an integer, `[2]`."""
    return tf.random.experimental.stateless_fold_in(
        seed, data, alg=_algorithm()
    )


def is_under_xla() -> bool:
    """Returns whether a function with `jit_compile=True` is being traced."""
    if tf.executing_eagerly():
        return False
    graph = tf.compat.v1.get_default_graph()
    while True:
        context = graph._get_control_flow_context()
        while context is not None:
            if context.IsXLAContext():
                return True
            context = context.outer_context
        if not graph.building_function:
            return False
        graph = graph.outer_graph


def _algorithm() -> str:
    """Returns the name of the algorithm, as `alg` of TensorFlow's draws."""
    return "philox" if is_under_xla() else "auto_select"
