"""Diagonal Gaussians: density, divergence and closed-form moments."""

import functools
import math
from typing import NamedTuple

import tensorflow as tf

_LOG_TWO_PI = math.log(2.0 * math.pi)


class Gaussian(NamedTuple):
    """A Gaussian with independent coordinates: mean, standard deviation.

    `loc` is `[...]`; `scale` is positive and broadcastable to it.
    """

    loc: tf.Tensor
    scale: tf.Tensor


def log_prob(x: tf.Tensor, p: Gaussian) -> tf.Tensor:
    """Computes `log p(x)`, nats, `[...]`, element by element."""
    standardized = (x - p.loc) / p.scale
    return -0.5 * (tf.square(standardized) + _LOG_TWO_PI) - tf.math.log(p.scale)


def kl_divergence(q: Gaussian, p: Gaussian) -> tf.Tensor:
    """Computes `KL(q || p)`, element by element, nats; the caller sums.

    Written with the ratio of the two scales, so that float32 loses nothing
    however small both of them are. Like any sum of its three terms it is
    exact to rounding of 1 nat (1e-7 in float32), not of a vanishing KL.
    """
    return _kl_divergence(*broadcast(*q, *p))


@tf.custom_gradient
def _kl_divergence(q_loc, q_scale, p_loc, p_scale):
    # Its own gradient, for speed: a layer takes it at every step.
    ratio = q_scale / p_scale
    distance = (q_loc - p_loc) / p_scale
    squares = tf.square(ratio) + tf.square(distance)

    def gradient(upstream):
        d_loc, d_scale = kl_gradient(
            Gaussian(q_loc, q_scale), Gaussian(p_loc, p_scale)
        )
        d_prior_scale = (1.0 - squares) / p_scale
        return (
            upstream * d_loc,
            upstream * d_scale,
            -upstream * d_loc,
            upstream * d_prior_scale,
        )

    return 0.5 * (squares - 1.0) - tf.math.log(ratio), gradient


def total_kl_divergence(
    q: Gaussian, p: Gaussian, pull: tf.Tensor | float = 1.0
) -> tf.Tensor:
    """Computes `KL(q || p)` of all coordinates, nats, a scalar.

    It is the sum of `kl_divergence`, for a `p` of scalars, in fewer passes over
    `q` and its gradients. `pull`, a scalar, is a factor on the squared distance
    of the means.
    """
    loc, scale = broadcast(q.loc, q.scale)
    scalars = (tf.convert_to_tensor(x, loc.dtype) for x in (*p, pull))
    return _total_kl_divergence(loc, scale, *scalars)


@tf.custom_gradient
def _total_kl_divergence(q_loc, q_scale, p_loc, p_scale, pull):
    # The gradient that arrives is a scalar: here no tensor is made of it.
    ratio = q_scale / p_scale
    difference = q_loc - p_loc
    count = tf.cast(tf.size(q_loc), q_loc.dtype)
    spread = 2.0 * tf.nn.l2_loss(ratio)
    distance = 2.0 * tf.nn.l2_loss(difference) / tf.square(p_scale)
    squares = spread + pull * distance

    def gradient(upstream):
        precision = upstream / tf.square(p_scale)
        return (
            (pull * precision) * difference,
            precision * q_scale - upstream / q_scale,
            -(pull * precision) * tf.reduce_sum(difference),
            upstream * (count - squares) / p_scale,
            0.5 * upstream * distance,
        )

    return (
        0.5 * (squares - count) - tf.reduce_sum(tf.math.log(ratio)),
        gradient,
    )


def kl_gradient(q: Gaussian, p: Gaussian) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes the gradient of `KL(q || p)` by `q.loc` and `q.scale`."""
    precision = 1.0 / tf.square(p.scale)
    return (q.loc - p.loc) * precision, q.scale * precision - 1.0 / q.scale


def second_moment(q: Gaussian) -> tf.Tensor:
    """Computes `E_q[w**2]`, `[...]`."""
    return tf.square(q.loc) + tf.square(q.scale)


def broadcast(*tensors: tf.Tensor) -> list[tf.Tensor]:
    """Broadcasts tensors to one shape and the first one's dtype.

    Gradients are summed back.
    """
    dtype = tf.convert_to_tensor(tensors[0]).dtype
    tensors = [tf.convert_to_tensor(tensor, dtype) for tensor in tensors]
    shape = functools.reduce(
        tf.broadcast_static_shape, [tensor.shape for tensor in tensors]
    )
    if all(shape.is_fully_defined() and t.shape == shape for t in tensors):
        return tensors
    if not shape.is_fully_defined():
        shape = functools.reduce(
            tf.broadcast_dynamic_shape, map(tf.shape, tensors)
        )
    return [tf.broadcast_to(tensor, shape) for tensor in tensors]


def centered_log_prob(value: tf.Tensor, precision: float) -> tf.Tensor:
    """Sums the log density of `N(0, 1 / precision)` over the last axis."""
    log_norm = 0.5 * math.log(2.0 * math.pi / precision)
    return -tf.reduce_sum(
        0.5 * precision * tf.square(value) + log_norm, axis=-1
    )
