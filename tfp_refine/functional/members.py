"""Mapping of one member's computation over several members."""

import os

import tensorflow as tf


def map_members(function, stacked, like):
    """Maps a function of one member over stacked values `[M, ...]` (nested).

    Results are as `like`, stacked tensors. Members run in parallel, one on each
    core.
    """
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
    """Splits stacked members into a list of tuples of at most `size` each."""
    num_members = len(tf.nest.flatten(stacked)[0])
    return [
        tf.nest.map_structure(
            lambda value: value[first : first + size],  # noqa: B023
            stacked,
        )
        for first in range(0, num_members, size)
    ]


def together(results):
    """Concatenates the results of batches, `[m, ...]` each, nested."""
    results = list(results)
    if len(results) == 1:
        return results[0]
    return tf.nest.map_structure(
        lambda *values: tf.concat(values, axis=0), *results
    )
