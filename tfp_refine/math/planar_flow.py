"""Planar flow: points move along a direction, by how they lie to a plane.

`y = x + u_hat tanh(w.x + b)`, where `u_hat` is `u` with its part along `w`
changed so that `w.u_hat = softplus(w.u) - 1 > -1`, which makes it invertible.

Reference:
    - [Rezende and Mohamed, 2015](https://arxiv.org/abs/1505.05770), Eq. 10 and
      Appendix A.1
"""

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

# Squared length of `w` below which there is no plane: `y = x + u tanh(b)`.
_TINY = 1e-12
# Keeps the slope above zero in float32, where `w.u` is below -100.
_LEAST_SLOPE = 1e-30


def forward(
    x: tf.Tensor, u: tf.Tensor, w: tf.Tensor, b: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Moves points `[..., D]`; also returns the log determinant, nats, `[...]`.

    `u` is the direction and `w` the normal of the plane, `[..., D]`; `b` is its
    offset, broadcastable to `[...]`.
    """
    u_hat, slope = _constrain(u, w)
    bend = tf.tanh(_dot(w, x) + b)
    y = x + u_hat * tf.expand_dims(bend, -1)
    # `1 + (1 - bend**2) w.u_hat`, without cancellation.
    squared = tf.square(bend)
    return y, tf.math.log(squared + (1.0 - squared) * slope)


def inverse(
    y: tf.Tensor, u: tf.Tensor, w: tf.Tensor, b: tf.Tensor
) -> tf.Tensor:
    """Moves points `[..., D]` back; along `w` by a numerical search."""
    u_hat, slope = _constrain(u, w)
    # a + (slope - 1) tanh(a) = target, increasing in a = w.x + b.
    target = _dot(w, y) + b
    reach = tf.abs(slope - 1.0) + 1e-3

    def excess(a):
        return a + (slope - 1.0) * tf.tanh(a) - target

    a = tf.stop_gradient(
        tfp.math.find_root_chandrupatla(
            excess,
            low=target - reach,
            high=target + reach,
            position_tolerance=4.0 * np.finfo(y.dtype.as_numpy_dtype).eps,
            max_iterations=100,
        ).estimated_root
    )
    # A step of Newton's method, which also carries the gradient.
    squared = tf.square(tf.tanh(a))
    a = a - excess(a) / tf.stop_gradient(squared + (1.0 - squared) * slope)
    return y - u_hat * tf.tanh(a)[..., tf.newaxis]


def _constrain(u, w):
    """Returns `u_hat`, and `1 + w.u_hat`, which is positive."""
    along, squared = _dot(w, u), _dot(w, w)
    no_plane = squared < _TINY
    slope = tf.where(
        no_plane, 1.0 + along, tf.nn.softplus(along) + _LEAST_SLOPE
    )
    squared = tf.where(no_plane, tf.ones_like(squared), squared)
    part = tf.expand_dims((slope - 1.0 - along) / squared, -1)
    return u + part * w, slope


def _dot(first, second):
    return tf.reduce_sum(first * second, axis=-1)
