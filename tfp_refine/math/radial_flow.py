"""Radial flow: points move towards a center, or away from it.

`y = x + beta h (x - x0)` with `r = |x - x0|`, `h = 1 / (alpha + r)`. Raw
parameters: `alpha = softplus(alpha_prime)`, and `alpha + beta =
softplus(beta_prime)`, so that it is invertible; it is the identity where both
are equal.

Reference:
    - [Rezende and Mohamed, 2015](https://arxiv.org/abs/1505.05770), Eq. 14
"""

import tensorflow as tf

# Keeps the gradient of the distance finite at the center.
_TINY = 1e-24


def forward(
    x: tf.Tensor,
    x0: tf.Tensor,
    alpha_prime: tf.Tensor,
    beta_prime: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Moves points `[..., D]`; also returns the log determinant, nats, `[...]`.

    The center `x0` is broadcastable to `[..., D]`, the raw parameters to
    `[...]`.
    """
    alpha, sum_, beta = _constrain(alpha_prime, beta_prime)
    offset = x - x0
    r = _norm(offset)
    pull = beta / (alpha + r)
    y = x + tf.expand_dims(pull, -1) * offset
    size = tf.cast(tf.shape(x)[-1], x.dtype)
    # `1 + beta h` and `1 + alpha beta h**2`, of which the second is that of
    # the radial direction, as quotients of positive numbers where `beta` is
    # near `-alpha`, and otherwise so that little is lost near the identity.
    strong = pull < -0.5
    tangential = tf.where(
        strong, tf.math.log((r + sum_) / (alpha + r)), _log1p(pull, strong)
    )
    shift = alpha * pull / (alpha + r)
    radial = tf.where(
        strong,
        tf.math.log(
            (r * (r + 2.0 * alpha) + alpha * sum_) / tf.square(alpha + r)
        ),
        _log1p(shift, strong),
    )
    return y, (size - 1.0) * tangential + radial


def inverse(
    y: tf.Tensor,
    x0: tf.Tensor,
    alpha_prime: tf.Tensor,
    beta_prime: tf.Tensor,
) -> tf.Tensor:
    """Moves points `[..., D]` back."""
    alpha, sum_, _ = _constrain(alpha_prime, beta_prime)
    offset = y - x0
    distance = _norm(offset)
    # The positive root of `r**2 - c r - alpha distance`, without cancellation.
    c = distance - sum_
    root = tf.sqrt(c * c + 4.0 * alpha * distance)
    r = tf.where(
        c > 0.0,
        0.5 * (c + root),
        2.0 * alpha * distance / (root + tf.abs(c) + _TINY),
    )
    return x0 + offset * ((alpha + r) / (sum_ + r))[..., tf.newaxis]


def _constrain(alpha_prime, beta_prime):
    """Returns `alpha`, `alpha + beta` and `beta`."""
    alpha, sum_ = tf.nn.softplus(alpha_prime), tf.nn.softplus(beta_prime)
    return alpha, sum_, sum_ - alpha


def _norm(x):
    return tf.sqrt(tf.reduce_sum(tf.square(x), axis=-1) + _TINY)


def _log1p(x, unused):
    # Finite where it is not used: else its gradient there is NaN.
    return tf.math.log1p(tf.where(unused, tf.zeros_like(x), x))
