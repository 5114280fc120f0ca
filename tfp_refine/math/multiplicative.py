"""The auxiliary terms of multiplicative normalizing flows.

The posterior is `q(W) = E_q(z)[q(W|z)]`: Gaussian weights whose means are
multiplied by `z`, one number for each input or filter, which a flow has made
of Gaussian numbers `z0`. Its divergence from the prior is bounded by

    E[KL(q(W|z) || p(W)) + log q(z) - log r(z|W)]

with any density `r`, tightly so if `r(z|W) = q(z|W)`. Eq. 14 of the paper calls
the first term, which is not negative, "-KL": a misprint.

Reference:
    - [Louizos and Welling, 2017](https://arxiv.org/abs/1703.01961), Eq. 11-16
"""

import math

import tensorflow as tf

# Of log precisions: e**10 is that of a standard deviation of 0.007.
_MAX_LOG_PRECISION = 10.0


def expected_log_prob(log_variance: tf.Tensor, log_det: tf.Tensor) -> tf.Tensor:
    """Computes `log q(z)`, with that of `z0` replaced by its expectation, nats.

    The expectation has less variance, and the same mean. `log_variance`, `[D]`,
    is that of `z0`; `log_det` that of the flow at `z0`, a scalar.
    """
    entropy = 0.5 * tf.reduce_sum(math.log(2.0 * math.pi) + 1.0 + log_variance)
    return -entropy - log_det


def statistic(
    loc: tf.Tensor,
    variance: tf.Tensor,
    weights: tf.Tensor,
    noise: tf.Tensor,
    linear: bool = False,
) -> tf.Tensor:
    """Draws the statistic of weights `W` that `r` uses, without drawing `W`.

    `mean(tanh(W^T c))`, a scalar, or with `linear` without the `tanh`; the
    product is Gaussian. `loc` and `variance` are those of the weights given
    `z`, `[D, M]`, with those that `z_d` multiplies in row `d`; `weights` are
    `c`, `[D]`, and `noise` is standard normal, `[M]`.
    """
    mean = tf.linalg.matvec(loc, weights, transpose_a=True)
    squares = tf.linalg.matvec(variance, tf.square(weights), transpose_a=True)
    # The floor keeps the gradient of the root finite.
    product = mean + tf.sqrt(squares + 1e-24) * noise
    return tf.reduce_mean(product if linear else tf.tanh(product))


def auxiliary_log_prob(
    base: tf.Tensor,
    log_det: tf.Tensor,
    loc: tf.Tensor,
    log_precision: tf.Tensor,
    base_log_precision: tf.Tensor | float = 0.0,
) -> tf.Tensor:
    """Computes `log r(z|W)`, nats, a scalar.

    `base` is `z` after the flow of `r`, `[D]`, with the log determinant
    `log_det`. Its distribution has the mean `loc`, `[D]`, and the log precision
    `log_precision`, `[D]`, of the weights, clipped to [-10, 10], plus
    `base_log_precision`, `[D]`.
    """
    log_precision = tf.clip_by_value(
        log_precision, -_MAX_LOG_PRECISION, _MAX_LOG_PRECISION
    )
    log_precision += base_log_precision
    log_prob = 0.5 * (
        log_precision
        - math.log(2.0 * math.pi)
        - tf.exp(log_precision) * tf.square(base - loc)
    )
    return tf.reduce_sum(log_prob) + log_det
