"""Moving averages of batch normalization, for weights that had none."""

import numpy as np
import tensorflow as tf

from tfp_refine import functional

_BATCH = 256


def recompute(weights, params, others, x):
    """Averages what weights other than trainable ones move towards.

    A moving average becomes `m * old + (1 - m) * new` in each batch; from two
    values of `old` follow `m` and `new`, whatever the layer. Weights that do
    not move stay as they are.

    Args:
        weights: `ModelWeights` of the model.
        params: Trainable weights, `[S, P]`.
        others: Other weights, `[S, V]`.
        x: Training inputs, `[N, ...]` (or nested); a last batch that is smaller
            than the others counts less.

    Returns:
        others: Means over all batches, array `[S, V]`.
    """
    num_examples = tf.nest.flatten(x)[0].shape[0]

    def moved(batch, params, others):
        def after(start):
            _, others, _ = weights.outputs(
                batch, params, start, 0, 0, training=True
            )
            return others

        from_zero = after(tf.zeros_like(others))
        # About as large as `new`: the difference of the two is precise then.
        large = 1.0 + 100.0 * tf.abs(from_zero)
        decay = (after(large) - from_zero) / large
        # Of a constant weight, `old` stays `old`.
        target = tf.math.divide_no_nan(from_zero, 1.0 - decay)
        moves = tf.abs(decay - 1.0) > 1e-6
        return tf.where(moves, target, after(others))

    program = functional.Program(moved, varying=(True, False, False))
    means = np.zeros(others.shape, np.float64)
    for begin in range(0, num_examples, _BATCH):
        rows = slice(begin, begin + _BATCH)
        batch = tf.nest.map_structure(lambda leaf, r=rows: leaf[r], x)
        part = tf.nest.flatten(batch)[0].shape[0] / num_examples
        for number in range(len(params)):
            means[number] += part * (
                program(batch, params[number], others[number]).numpy()
            )
    return means.astype(others.dtype)
