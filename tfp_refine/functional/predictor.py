"""Draws of a model's outputs, in bounded memory."""

import functools
import os

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine.functional import arrays
from tfp_refine.functional import program
from tfp_refine.functional import seeds


class Predictor:
    """Draws outputs of one model under one or several sets of weights.

    Compiled once, for any number of calls.

    Args:
        forward: `Forward` of the model.
        check: Function of the inputs that raises if the model cannot take them.
    """

    def __init__(self, forward, check):
        self._forward = forward
        self._check = check
        self._programs = {}

    def __call__(self, x, params, others, num_samples, seed, batch_size):
        """Draws outputs.

        Args:
            x: Inputs, `[N, ...]` (or nested).
            params: Stacked weights `[M, 2, W]`, draw `s` comes from member
                `s % M`; or `None` for the model's own.
            others: Values of the forward's `other_variables`.
            num_samples: `S`, number of draws.
            seed: Integer, or `None` for a fresh one.
            batch_size: Rows that are computed at a time.

        Returns:
            draws: `numpy` array (or nested) `[S, N, ...]`.

        Raises:
            ValueError: If an argument is invalid.
        """
        _validation.positive_integer("num_samples", num_samples)
        _validation.positive_integer("batch_size", batch_size)
        seed = seeds.check(seed)
        x = arrays.inputs(x)
        self._check(x)
        num_examples = keras.tree.flatten(x)[0].shape[0]
        keys = tf.constant(
            [seeds.key(seed, sample) for sample in range(num_samples)],
            tf.int64,
        )
        draws = None
        for begin in range(0, num_examples, batch_size):
            rows = slice(begin, min(begin + batch_size, num_examples))
            block = self._program(x, params)(
                _take(x, rows),
                () if params is None else params,
                others,
                keys,
                tf.constant(begin // batch_size, tf.int64),
            )
            if draws is None:
                draws = keras.tree.map_structure(
                    lambda leaf: np.empty(
                        (num_samples, num_examples, *leaf.shape[2:]),
                        leaf.dtype.as_numpy_dtype,
                    ),
                    block,
                )
            for target, leaf in zip(
                keras.tree.flatten(draws),
                keras.tree.flatten(block),
                strict=True,
            ):
                target[:, rows] = leaf.numpy()
        return draws

    def _program(self, x, params):
        """Finds the program for inputs of this kind."""
        specs = keras.tree.map_structure(lambda v: (v.shape[1:], v.dtype), x)
        kind = (params is None, repr(specs))  # a dict is not hashable
        if kind not in self._programs:
            self._programs[kind] = program.Program(
                functools.partial(draw, self._forward),
                varying=(True, True, False, True, False),
            )
        return self._programs[kind]


def draw(forward, x, params, others, keys, block_index):
    """Draws outputs for a block of rows, in a trace.

    Args:
        forward: `Forward` of the model.
        x: Inputs, `[B, ...]` (or nested).
        params: Stacked weights `[M, 2, W]`, draw `s` comes from member
            `s % M`; or `()` for the model's own.
        others: Values of the forward's `other_variables`.
        keys: Keys of the draws' random streams, int64, `[S]`.
        block_index: Number of the block, int64, a scalar.

    Returns:
        draws: Outputs, `[S, B, ...]` (or nested).
    """

    def one(sample):
        member = (
            params[sample % tf.shape(params)[0]]
            if isinstance(params, tf.Tensor)
            else None
        )
        return forward(x, member, others, keys[sample], block_index)

    # Only for its structure: what is not returned is not computed.
    example = one(tf.constant(0))
    specs = keras.tree.map_structure(
        lambda leaf: tf.TensorSpec(leaf.shape, leaf.dtype), example
    )
    return tf.map_fn(
        one,
        tf.range(tf.shape(keys)[0]),
        fn_output_signature=specs,
        parallel_iterations=os.cpu_count(),
    )


def _take(x, rows):
    return keras.tree.map_structure(lambda leaf: leaf[rows], x)
