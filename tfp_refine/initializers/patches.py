"""Inputs of the units of a layer, or patches of them, as rows."""

import tensorflow as tf

from tfp_refine import functional
from tfp_refine.initializers import initializer
from tfp_refine.initializers import traversal

# How many numbers the patches of a chunk of examples hold at most: 64 MiB.
_CHUNK_NUMBERS = 2**24


def draw(model, call, x, patches_per_example, rng):
    """Propagates examples to a layer, and draws patches `[N, P, groups, F]`.

    Positions of an example are drawn without replacement; all of them if there
    are no more than `patches_per_example`.
    """
    size = traversal.chunk_size(model)
    patches = []
    for start in range(0, functional.data.num_examples(x), size):
        batch = functional.data.take(x, slice(start, start + size))
        inputs = traversal.layer_inputs(model, call, batch)
        patches += _draw(call, inputs, patches_per_example, rng)
    patches = tf.concat(patches, axis=0)
    if patches.dtype != tf.float64:
        patches = tf.cast(patches, tf.float32)
    return patches


def _draw(call, inputs, patches_per_example, rng):
    """Draws patches of a batch, some examples at a time."""
    layer, num_positions = call.layer, call.num_positions
    size = num_positions * layer.num_groups * initializer.fan_in(layer)
    step = max(_CHUNK_NUMBERS // size, 1)
    for start in range(0, inputs[0].shape[0], step):
        patches = tf.concat(
            [layer.patches(one[start : start + step]) for one in inputs], axis=1
        )
        if patches_per_example < num_positions:
            order = rng.random([patches.shape[0], num_positions]).argsort(-1)
            patches = tf.gather(
                patches, order[:, :patches_per_example], axis=1, batch_dims=1
            )
        yield patches
