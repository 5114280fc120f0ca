"""Mapping of one member's computation over several members."""

import os

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


def in_batches(compute, size, *stacked):
    """Computes a few stacked members at a time.

    Args:
        compute: Function of a list of batches, each a tuple of values
            `[m, ...]`, nested, that returns a list of their results.
        size: Largest `m`.
        *stacked: Values of all members, `[M, ...]` each, nested.

    Returns:
        results: Results of all members, `[M, ...]` each, nested.
    """
    num_members = len(tf.nest.flatten(stacked)[0])
    results = compute(
        [
            tf.nest.map_structure(
                lambda value: value[first : first + size],  # noqa: B023
                stacked,
            )
            for first in range(0, num_members, size)
        ]
    )
    if len(results) == 1:
        return results[0]
    return tf.nest.map_structure(
        lambda *values: tf.concat(values, axis=0), *results
    )
