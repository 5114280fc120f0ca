"""Mapping of one member's computation over all members."""

import os

import tensorflow as tf


def map_members(function, stacked, like):
    """Maps a function over members, in parallel over the cores.

    Args:
        function: Function of one member's values.
        stacked: Their values, `[M, ...]` each, nested.
        like: Tensors of the shapes and dtypes of the stacked results.

    Returns:
        results: Nested as `like`, `[M, ...]` each.
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
