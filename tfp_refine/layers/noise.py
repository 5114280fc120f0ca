"""Random draws of the layers, made of fewer random bits.

Drawing random numbers dominates the cost of a small Bayesian layer on a CPU,
and its ops a third of those that the first step of a deep network traces.
"""

import math
from collections.abc import Sequence
from typing import TypeAlias

import keras
import numpy as np
import tensorflow as tf

from tfp_refine.math import philox

# Below it, the generator's own normals cost less than the steps here.
_SMALL = 4096
_BITS = 16

Seed: TypeAlias = keras.random.SeedGenerator | int | None


def next_seed(seed: Seed) -> tf.Tensor:
    """Returns the seed of a draw, int32 `[2]`, the one that Keras makes.

    `None` is the global generator, whose state Keras keeps to itself.
    """
    if seed is None:
        return keras.random.randint((2,), 0, tf.int32.max)
    if isinstance(seed, int):
        seed = tf.constant([seed, 0], tf.int64)
    else:
        seed = tf.convert_to_tensor(seed.next())
    return tf.cast(tf.math.floormod(seed, tf.int32.max - 1), tf.int32)


def standard_normal(
    shape: Sequence[int | tf.Tensor],
    dtype: str,
    seed: Seed,
) -> tf.Tensor:
    """Draws standard normal numbers, by the Box-Muller transform.

    Exact up to the rounding of its uniform numbers, so to 5.6 standard
    deviations in float32, as the normals of TensorFlow are. Unknown sizes in
    `shape` may be scalar tensors.
    """
    shape = tuple(shape)
    wide = dtype if dtype == "float64" else "float32"
    if all(isinstance(n, int) for n in shape) and np.prod(shape) < _SMALL:
        draws = philox.normal(shape, next_seed(seed), wide)
        return keras.ops.cast(draws, dtype)
    rows, row = (shape[:1], shape[1:]) if len(shape) > 1 else ((), shape)
    size = math.prod(row)
    uniform = philox.uniform((2, *rows, (size + 1) // 2), next_seed(seed), wide)
    first, second = tf.unstack(uniform)
    # In (0, 1]: its logarithm is finite.
    radius = keras.ops.sqrt(-2.0 * keras.ops.log(1.0 - first))
    cosine, sine = _on_circle(second)
    draws = keras.ops.concatenate([radius * cosine, radius * sine], axis=-1)
    draws = keras.ops.reshape(_first(draws, size), shape)
    return keras.ops.cast(draws, dtype)


def _on_circle(turns: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes cosines and sines of angles, `[...]`, in turns, `[0, 1]`."""
    if turns.dtype != tf.float32 or not philox.is_under_xla():
        angle = (2.0 * math.pi) * turns
        return keras.ops.cos(angle), keras.ops.sin(angle)
    # On a CPU, XLA fuses polynomials, and calls the functions one by one. With
    # these Taylor series up to pi / 4 the error is below rounding.
    quarters = tf.round(4.0 * turns)
    x = (0.5 * math.pi) * (4.0 * turns - quarters)
    y = tf.square(x)
    sine = x * (1 + y * (-1 / 6 + y * (1 / 120 + y * (-1 / 5040 + y / 362880))))
    cosine = 1 + y * (-1 / 2 + y * (1 / 24 + y * (-1 / 720 + y / 40320)))
    is_1, is_2, is_3 = (quarters == n for n in (1.0, 2.0, 3.0))
    cosine, sine = (
        tf.where(is_1 | is_3, one, other)
        for one, other in ((sine, cosine), (cosine, sine))
    )
    return (
        tf.where(is_1 | is_2, -cosine, cosine),
        tf.where(is_2 | is_3, -sine, sine),
    )


def random_signs(
    shape: Sequence[int | tf.Tensor],
    dtype: str,
    seed: Seed,
) -> tf.Tensor:
    """Draws independent signs, -1 or +1; the last size must be an integer."""
    shape = tuple(shape)
    # A power of two: the bits of each integer are independent and unbiased.
    num_words = -(-shape[-1] // _BITS)
    words = philox.uniform(
        (*shape[:-1], num_words, 1), next_seed(seed), tf.int32, maxval=2**_BITS
    )
    places: np.ndarray = np.arange(_BITS, dtype=np.int32)
    # Floats at once: on a GPU, most operations of int32 are the processor's.
    bits = keras.ops.cast(keras.ops.right_shift(words, places) & 1, dtype)
    bits = keras.ops.reshape(bits, (*shape[:-1], num_words * _BITS))
    return 2 * _first(bits, shape[-1]) - 1


def _first(values: tf.Tensor, size: int | tf.Tensor) -> tf.Tensor:
    """Returns the first numbers along the last axis; all without an op."""
    is_all = isinstance(size, int) and values.shape[-1] == size
    return values if is_all else values[..., :size]
