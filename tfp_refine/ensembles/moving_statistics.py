"""Moving averages of batch normalization, for weights that had none."""

import numpy as np
import tensorflow as tf

from tfp_refine import functional

_BATCH = 256


def recompute(view, params, fixed, x):
    """Averages the targets that non-trainable weights move towards.

    A moving average becomes `m * old + (1 - m) * new` in each batch; from two
    values of `old` follow `m` and `new`, whatever the layer. Weights that do
    not move stay as they are. Returns the means over all batches of `x`, a list
    of `[S, ...]`, for weights `[S, P]`; a last, smaller batch counts less.
    """
    num_examples = functional.data.num_examples(x)
    means = [
        np.zeros([len(params), *np.shape(value)], np.float64) for value in fixed
    ]
    for rows, batch in functional.data.blocks(x, _BATCH):
        part = (rows.stop - rows.start) / num_examples
        program = view.compiled(
            "moving_statistics",
            lambda *arguments: _targets(view, *arguments),
            (batch, params[0], fixed),
            (True, False, False),
        )
        for number, one in enumerate(params):
            targets = program(batch, one, fixed)
            for mean, target in zip(means, targets, strict=True):
                mean[number] += part * target.numpy()
    return [
        mean.astype(np.asarray(value).dtype)
        for mean, value in zip(means, fixed, strict=True)
    ]


def _targets(view, batch, params, fixed):
    """Returns the targets that fixed weights move towards in a batch."""

    def after(start):
        _, values, _ = view.call_and_update(
            batch, params, start, key=0, index=0, training=True
        )
        return values

    is_float = [value.dtype.is_floating for value in fixed]
    zeros = [
        tf.zeros_like(value) if floating else value
        for value, floating in zip(fixed, is_float, strict=True)
    ]
    from_zero = after(zeros)
    # About as large as `new`: the difference of the two is precise then.
    large = [
        1.0 + 100.0 * tf.abs(value) if floating else value
        for value, floating in zip(from_zero, is_float, strict=True)
    ]
    targets = []
    for floating, zero, start, moved, value in zip(
        is_float, from_zero, large, after(large), after(fixed), strict=True
    ):
        if floating:
            decay = (moved - zero) / start
            # Of a constant weight, `old` stays `old`.
            target = tf.math.divide_no_nan(zero, 1.0 - decay)
            value = tf.where(tf.abs(decay - 1.0) > 1e-6, target, value)
        targets.append(value)
    return targets
