"""Keys of independent random streams, all derived from one seed."""

import random

import numpy as np
import tensorflow as tf

from tfp_refine.math import philox

# Keras folds seeds modulo the largest int32 less one.
_MODULUS = 2**31 - 2


def key(seed, *path):
    """Derives the key of the random stream that integers `path` name.

    It is an integer in `[0, 2**31 - 2)`.
    """
    # In one list, trailing zeros would not count: (seed,) and (seed, 0) agree.
    sequence = np.random.SeedSequence(seed, spawn_key=path)
    words = sequence.generate_state(2, np.uint32)
    return ((int(words[0]) << 32) + int(words[1])) % _MODULUS


def keys(seed, count):
    """Derives the keys of streams 0, 1, ... of a seed, int64, `[count]`."""
    return tf.constant([key(seed, i) for i in range(count)], tf.int64)


def fresh_keys(count):
    """Draws keys of random streams, int64, `[count]`, others in each run."""
    # Without the seed that the program may have set, which would be exported.
    return tf.raw_ops.RandomUniformInt(
        shape=[count],
        minval=tf.constant(0, tf.int64),
        maxval=tf.constant(_MODULUS, tf.int64),
    )


def check(seed):
    """Returns `seed`, a non-negative integer, or a fresh one for `None`.

    Fresh seeds are drawn as Keras draws its own: `keras.utils.set_random_seed`
    fixes them.
    """
    if seed is None:
        return random.randint(1, 10**9)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise ValueError(
            "`seed` must be a non-negative integer or None. "
            f"Received: seed={seed!r}"
        )
    if seed < 0:
        raise ValueError(f"`seed` must not be negative. Received: seed={seed}")
    return int(seed)


def is_generator_state(variable):
    """Checks whether a variable is the state of a `SeedGenerator`."""
    return variable.name == "seed_generator_state"


def reseed(model, seed):
    """Restarts each random generator `i` of a model with `key(seed, i)`."""
    states = [v for v in model.variables if is_generator_state(v)]
    for index, state in enumerate(states):
        state.assign([key(seed, index), 0])


def generator_states(variables, key, call_index):
    """Draws the states of random generators, a dict by the variables' `id`.

    They are from the stream of a call.
    """
    if not variables:
        return {}
    seed = tf.stack([tf.cast(key, tf.int64), tf.cast(call_index, tf.int64)])
    states = philox.uniform([len(variables), 2], seed, tf.int32, minval=None)
    states = tf.unstack(tf.cast(states, variables[0].dtype))
    return {
        id(variable): state
        for variable, state in zip(variables, states, strict=True)
    }
