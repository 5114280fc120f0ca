"""Random draws of the layers, made of fewer random bits.

Drawing random numbers dominates the cost of a small Bayesian layer on a CPU.
"""

import math
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

# Below it, the generator's own normals cost less than the steps here.
_SMALL = 4096
_BITS = 16


def standard_normal(
    shape: Sequence[int | tf.Tensor],
    dtype: str,
    seed: keras.random.SeedGenerator | int | None,
) -> tf.Tensor:
    """Draws standard normal numbers, by the Box-Muller transform.

    Exact up to the rounding of its uniform numbers, so to 5.6 standard
    deviations in float32, as the normals of TensorFlow are. Unknown sizes in
    `shape` may be scalar tensors.
    """
    shape = tuple(shape)
    wide = dtype if dtype == "float64" else "float32"
    if all(isinstance(n, int) for n in shape) and np.prod(shape) < _SMALL:
        draws = keras.random.normal(shape, dtype=wide, seed=seed)
        return keras.ops.cast(draws, dtype)
    rows, row = (shape[:1], shape[1:]) if len(shape) > 1 else ((), shape)
    size = math.prod(row)
    uniform = keras.random.uniform(
        (2, *rows, (size + 1) // 2), dtype=wide, seed=seed
    )
    # In (0, 1]: its logarithm is finite.
    radius = keras.ops.sqrt(-2.0 * keras.ops.log(1.0 - uniform[0]))
    angle = (2.0 * math.pi) * uniform[1]
    draws = keras.ops.concatenate(
        [radius * keras.ops.cos(angle), radius * keras.ops.sin(angle)], axis=-1
    )
    draws = keras.ops.reshape(draws[..., :size], shape)
    return keras.ops.cast(draws, dtype)


def random_signs(
    shape: Sequence[int | tf.Tensor],
    dtype: str,
    seed: keras.random.SeedGenerator | int | None,
) -> tf.Tensor:
    """Draws independent signs, -1 or +1; the last size must be an integer."""
    shape = tuple(shape)
    # A power of two: the bits of each integer are independent and unbiased.
    num_words = -(-shape[-1] // _BITS)
    words = keras.random.randint(
        (*shape[:-1], num_words, 1), 0, 2**_BITS, seed=seed
    )
    bits = keras.ops.right_shift(words, keras.ops.arange(_BITS)) & 1
    bits = keras.ops.reshape(bits, (*shape[:-1], num_words * _BITS))
    return keras.ops.cast(2 * bits[..., : shape[-1]] - 1, dtype)
