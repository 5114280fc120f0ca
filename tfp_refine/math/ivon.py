"""The improved variational online Newton method (IVON), as pure functions.

The posterior of a weight is `N(loc, 1 / (N * precision))`, where `precision` is
the Hessian of the mean loss plus the weight decay `d`, and `N` the number of
training examples. The prior is `N(0, 1 / (N * d))`.

Reference:
    - [Shen et al., 2024](https://arxiv.org/abs/2402.17641)
"""

from typing import NamedTuple

import tensorflow as tf


class Settings(NamedTuple):
    """Numbers that do not change from step to step.

    Attributes:
        num_train_examples: `N`.
        weight_decay: `d`, zero without a prior.
        hessian_init: The Hessian at the start.
        beta_1: Decay of the mean of the gradients.
        beta_2: Decay of the mean of the Hessians.
        clip_radius: Limit of the size of a step over the learning rate, before
            the learning rate is rescaled; `None`: no limit.
    """

    num_train_examples: int
    weight_decay: float
    hessian_init: float
    beta_1: float
    beta_2: float
    clip_radius: float | None


def scale(precision: tf.Tensor, num_train_examples: int) -> tf.Tensor:
    """Computes standard deviations of the posterior, `[...]`."""
    return tf.math.rsqrt(num_train_examples * precision)


def step(
    loc: tf.Tensor,
    momentum: tf.Tensor,
    precision: tf.Tensor,
    gradient: tf.Tensor,
    product: tf.Tensor,
    count: tf.Tensor,
    learning_rate: tf.Tensor,
    settings: Settings,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Takes a step.

    Args:
        loc: Mean, `[...]`.
        momentum: Mean of the gradients so far, `[...]`; zeros at the start.
        precision: Hessian plus weight decay, `[...]`.
        gradient: Of the mean loss, at weights that are drawn, `[...]`.
        product: `gradient * (weights - loc)`, `[...]`. Both may be averages
            over draws.
        count: Number of steps taken before, a scalar of the others' dtype.
        learning_rate: A scalar.
        settings: `Settings`.

    Returns:
        loc: `[...]`.
        momentum: `[...]`.
        precision: `[...]`, positive whatever the gradient is.
    """
    num, decay, hessian_init, beta_1, beta_2, clip_radius = settings
    momentum += (1.0 - beta_1) * (gradient - momentum)
    # The published step of the Hessian over the precision. It never more than
    # halves that, as `u + u**2 / 2 >= -1 / 2`, whatever is rounded.
    u = ((1.0 - beta_2) * num) * product - (1.0 - beta_2)
    if decay:
        u += ((1.0 - beta_2) * decay) / precision
    precision += precision * u * (1.0 + 0.5 * u)
    debias = 1.0 - tf.constant(beta_1, count.dtype) ** (count + 1.0)
    rate = learning_rate * (hessian_init + decay)
    # Scalars first: each product of arrays is a pass over the memory.
    if clip_radius is None:
        direction = (rate / debias) * momentum + (rate * decay) * loc
        return loc - direction / precision, momentum, precision
    direction = (momentum / debias + decay * loc) / precision
    direction = tf.clip_by_value(direction, -clip_radius, clip_radius)
    return loc - rate * direction, momentum, precision
