"""The spread of draws of outputs around their mean."""

import functools
import math

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import functional
from tfp_refine.losses import likelihood

# Spreads to choose from.
CANDIDATES = np.arange(20, 0, -1) / 20
# Log density of a Beta(2, 1) prior: data that say nothing leave it at 1.
LOG_PRIOR = np.log(2.0 * CANDIDATES)


def narrow(outputs, spread, axis=0):
    """Moves draws of outputs (nested), along an axis, towards their mean."""

    def move(leaf):
        leaf = tf.convert_to_tensor(leaf)
        if not leaf.dtype.is_floating:
            return leaf
        # In half precision the sum of many draws may overflow.
        wide = tf.cast(leaf, tf.float32) if leaf.dtype.size < 4 else leaf
        # The mean of equal draws is one of them, to the last digit.
        first = tf.gather(wide, [0], axis=axis)
        mean = first + tf.reduce_mean(wide - first, axis, keepdims=True)
        moved = mean + tf.cast(spread, wide.dtype) * (wide - mean)
        return tf.cast(moved, leaf.dtype)

    return keras.tree.map_structure(move, outputs)


def most_likely(view, at, loss, data, weights, blocks):
    """Finds the spread under which data are most likely, in [0, 1].

    Args:
        view: `WeightView` of the model.
        at: A vector and fixed weights, to check the data with.
        loss: Negative log likelihood, as for `Objective`.
        data: `(x, y)`, or `(x, y, weight)` with weights of positions, tensors.
        weights: How often the prediction of each example counts, `[N]`, or
            `None`.
        blocks: Yields slices of the examples, and draws of their outputs, `[S,
            B, ...]` (or nested).

    Raises:
        ValueError: If data do not fit the model, the loss is no log likelihood,
            or it is not finite.
    """
    objective = functional.Objective(
        view,
        loss=loss,
        at=at,
        **dict(zip(functional.data.NAMES, data, strict=False)),
    )
    objective.check_examples()
    head = keras.tree.flatten(view.call(objective.head[0], *at, 0))
    is_masked = any(likelihood.mask_of(leaf) is not None for leaf in head)
    program = functional.Program(
        functools.partial(_log_likelihoods, objective, is_masked),
        varying=(True, True),
    )
    total = LOG_PRIOR.copy()
    for rows, outputs in blocks:
        # The first axis may change from block to block.
        outputs = keras.tree.map_structure(
            lambda leaf: np.swapaxes(leaf, 0, 1), outputs
        )
        block = functional.data.take(objective.data, rows)
        found = program(outputs, block).numpy()
        total += found.sum(1) if weights is None else found @ weights[rows]
    if not np.any(np.isfinite(total)):
        raise ValueError(
            "Held-out data must be possible for some spread. Received: outputs "
            f"of the model '{view.model.name}' whose log likelihoods are NaN "
            "or infinite. Have members diverged?"
        )
    return float(CANDIDATES[np.nanargmax(total)])


def _log_likelihoods(objective, is_masked, outputs, block):
    """Computes those of examples under each candidate, nats, `[C, B]`.

    Draws of the outputs, `[B, S, ...]`, are a mixture.
    """
    num_samples = keras.tree.flatten(outputs)[0].shape[1]

    def repeat(leaf):
        return tf.repeat(leaf, num_samples, axis=0)

    x, *others = block
    others, masks = keras.tree.map_structure(repeat, others), []
    if is_masked:  # by the inputs, with any weights
        like = objective.view.call(x, objective.params, objective.fixed, 0)
        masks = [likelihood.mask_of(leaf) for leaf in keras.tree.flatten(like)]
        masks = [mask if mask is None else repeat(mask) for mask in masks]

    def of_candidate(spread):
        flat = keras.tree.map_structure(
            lambda leaf: tf.reshape(leaf, [-1, *leaf.shape[2:]]),
            narrow(outputs, spread, axis=1),
        )
        for leaf, mask in zip(keras.tree.flatten(flat), masks, strict=False):
            leaf._keras_mask = mask
        nll = objective.nll_of((None, *others), flat)
        of_draws = tf.reshape(-tf.cast(nll, tf.float64), [-1, num_samples])
        return tf.reduce_logsumexp(of_draws, axis=1) - math.log(num_samples)

    # One after the other: each takes the memory of all draws.
    return tf.map_fn(
        of_candidate, tf.constant(CANDIDATES), parallel_iterations=1
    )
