"""Diagonal Gaussians: density, divergence and closed-form moments."""

import math
from typing import NamedTuple

import tensorflow as tf

_LOG_TWO_PI = math.log(2.0 * math.pi)


class Gaussian(NamedTuple):
    """A Gaussian with independent coordinates.

    Attributes:
        loc: Mean, `[...]`.
        scale: Standard deviation, positive, broadcastable to `loc`.
    """

    loc: tf.Tensor
    scale: tf.Tensor


def log_prob(x: tf.Tensor, p: Gaussian) -> tf.Tensor:
    """Computes the log density of `x`, element by element.

    Args:
        x: Points, `[...]`.
        p: `Gaussian`, broadcastable to `[...]`.

    Returns:
        log_prob: `log p(x)`, nats, `[...]`.
    """
    standardized = (x - p.loc) / p.scale
    return -0.5 * (tf.square(standardized) + _LOG_TWO_PI) - tf.math.log(p.scale)


def kl_divergence(q: Gaussian, p: Gaussian) -> tf.Tensor:
    """Computes `KL(q || p)`, element by element; the caller sums.

    Written with the ratio of the two scales, so that float32 loses nothing
    however small both of them are. Like any sum of its three terms it is
    exact to rounding of 1 nat (1e-7 in float32), not of a vanishing KL.

    Args:
        q: `Gaussian`, `[...]`.
        p: `Gaussian`, broadcastable to `[...]`.

    Returns:
        kl: Nats, `[...]`.
    """
    ratio = q.scale / p.scale
    distance = (q.loc - p.loc) / p.scale
    squares = tf.square(ratio) + tf.square(distance)
    return 0.5 * (squares - 1.0) - tf.math.log(ratio)


def kl_gradient(q: Gaussian, p: Gaussian) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes the gradient of `KL(q || p)` with respect to `q`.

    What automatic differentiation of `kl_divergence` gives, in fewer steps.

    Args:
        q: `Gaussian`, `[...]`.
        p: `Gaussian`, broadcastable to `[...]`.

    Returns:
        d_loc: With respect to `q.loc`, `[...]`.
        d_scale: With respect to `q.scale`, `[...]`.
    """
    precision = 1.0 / tf.square(p.scale)
    return (q.loc - p.loc) * precision, q.scale * precision - 1.0 / q.scale


def second_moment(q: Gaussian) -> tf.Tensor:
    """Computes `E_q[w**2]`, `[...]`."""
    return tf.square(q.loc) + tf.square(q.scale)
