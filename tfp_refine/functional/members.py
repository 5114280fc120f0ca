"""Mapping of one member's computation over several members."""

import os

import numpy as np
import tensorflow as tf


def map_members(function, stacked, like, vectorized):
    """Maps a function over members.

    Args:
        function: Function of one member's values.
        stacked: Their values, `[M, ...]` each, nested.
        like: Tensors of the shapes and dtypes of the stacked results.
        vectorized: Whether each operation is done for all members at once;
            otherwise members run in parallel, one on each core.

    Returns:
        results: Nested as `like`, `[M, ...]` each.
    """
    if vectorized:
        return tf.vectorized_map(function, stacked, warn=False)
    specs = tf.nest.map_structure(
        lambda leaf: tf.TensorSpec(leaf.shape[1:], leaf.dtype), like
    )
    return tf.map_fn(
        function,
        stacked,
        fn_output_signature=specs,
        parallel_iterations=os.cpu_count(),
    )


def batches(size, *stacked):
    """Splits stacked members into batches.

    Args:
        size: Largest number of members in a batch, `m`.
        *stacked: Values of all members, `[M, ...]` each, nested.

    Returns:
        batches: List of tuples of values `[m, ...]`, nested.
    """
    num_members = len(tf.nest.flatten(stacked)[0])
    return [
        tf.nest.map_structure(
            lambda value: value[first : first + size],  # noqa: B023
            stacked,
        )
        for first in range(0, num_members, size)
    ]


def together(results):
    """Puts the results of batches together.

    Args:
        results: Iterable of them, `[m, ...]` each, nested.

    Returns:
        results: Results of all members, `[M, ...]` each, nested.
    """
    results = list(results)
    if len(results) == 1:
        return results[0]
    return tf.nest.map_structure(
        lambda *values: tf.concat(values, axis=0), *results
    )


def replace(stacked, rows, values):
    """Replaces the values of some members, in place where that can be.

    Args:
        stacked: Values of all members, `[M, ...]`; a tensor is left as it is.
        rows: Which members, different ones.
        values: Their values, `[len(rows), ...]`.

    Returns:
        stacked: The values of all members then, `[M, ...]`.
    """
    if len(rows) == len(stacked):
        return values
    if not isinstance(stacked, np.ndarray):
        stacked = np.array(stacked)
    stacked[rows] = values
    return stacked
