"""Divergence of a Gaussian from the log-uniform prior.

References:
    - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557)
    - [Molchanov et al., 2017](https://arxiv.org/abs/1701.05369), equation 14
"""

import tensorflow as tf

from tfp_refine.math import gaussian

_K1, _K2, _K3 = 0.63576, 1.87320, 1.48695
# Range of log(variance / mean**2) in which the approximation was fitted.
_LIMIT = 8.0
_LOC_FLOOR = 1e-8


def log_noise_ratio(q: gaussian.Gaussian) -> tf.Tensor:
    """Computes `log(variance / mean**2)`: large where a weight is all noise."""
    return 2.0 * tf.math.log(q.scale) - tf.math.log(
        tf.square(q.loc) + _LOC_FLOOR
    )


def kl_divergence(q: gaussian.Gaussian) -> tf.Tensor:
    """Approximates the divergence from `p(w) ~ 1 / |w|`, elementwise, nats.

    The prior is improper, and the divergence fixed up to a constant: here it
    vanishes for a weight that is all noise. The approximation is within 0.01
    nats where `log(variance / mean**2)` is in [-8, 8], and flat beyond.
    """
    ratio = tf.clip_by_value(log_noise_ratio(q), -_LIMIT, _LIMIT)
    return (
        _K1
        - _K1 * tf.sigmoid(_K2 + _K3 * ratio)
        + 0.5 * tf.math.softplus(-ratio)
    )
