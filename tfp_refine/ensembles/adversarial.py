"""Training on adversarial inputs."""

import numpy as np
import tensorflow as tf

from tfp_refine import functional

# Examples of which the range is found at a time.
_BLOCK = 1024


def check_inputs(data):
    """Refuses data whose inputs cannot be moved."""
    spec = functional.streams.specs(data)[0]
    if not isinstance(spec, tf.TensorSpec) or not spec.dtype.is_floating:
        raise ValueError(
            "`adversarial_epsilon` needs inputs that are one tensor of "
            f"floating point numbers, which can be moved. Received: {spec}"
        )


def make_loss(objective, epsilon):
    """Returns the loss at inputs and perturbed inputs, or `None` without."""
    if epsilon is None:
        return None
    check_inputs(objective.data)
    low, high = np.inf, -np.inf
    for _, (x, *_) in functional.streams.blocks(objective.data, _BLOCK):
        low = tf.minimum(low, tf.reduce_min(x, axis=0))
        high = tf.maximum(high, tf.reduce_max(x, axis=0))
    span = high - low

    def loss(params, fixed, common, batch, key, step):
        del common
        x, *others = batch
        with tf.GradientTape() as tape:
            tape.watch(x)
            nll, after, penalty = objective.training_loss(
                batch, params, fixed, key, step
            )
        # Where the loss rises (fast gradient sign).
        moved = x + epsilon * span * tf.sign(tape.gradient(nll, x))
        other_nll, _, _ = objective.training_loss(
            (tf.stop_gradient(moved), *others), params, fixed, key, step
        )
        total = 0.5 * (nll + other_nll) + penalty
        return total, total, after

    return loss
