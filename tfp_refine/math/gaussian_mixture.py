"""Mixtures of Gaussians with equal weights: moments, CDF and CRPS."""

import math
from typing import NamedTuple

import tensorflow as tf

from tfp_refine.math import gaussian

_SQRT_2_PI = math.sqrt(2.0 * math.pi)


class Variance(NamedTuple):
    """The variance of a mixture, `[...]`, in parts (law of total variance).

    `total = aleatoric + epistemic`: the mean of the components' variances and
    the variance of their means.
    """

    total: tf.Tensor
    aleatoric: tf.Tensor
    epistemic: tf.Tensor


def variance(draws: gaussian.Gaussian) -> Variance:
    """Computes the variance of a mixture of components `[S, ...]`."""
    aleatoric = tf.reduce_mean(tf.square(draws.scale), axis=0)
    epistemic = tf.math.reduce_variance(draws.loc, axis=0)
    return Variance(aleatoric + epistemic, aleatoric, epistemic)


def cdf(x: tf.Tensor, draws: gaussian.Gaussian) -> tf.Tensor:
    """Computes the probability of values up to `x`, `[...]`."""
    standardized = _ratio(x - draws.loc, draws.scale)
    normal_cdf = 0.5 * tf.math.erfc(-standardized / math.sqrt(2.0))
    return tf.reduce_mean(normal_cdf, axis=0)


def crps(x: tf.Tensor, draws: gaussian.Gaussian) -> tf.Tensor:
    """Computes the continuous ranked probability score, in the units of `x`.

    `integral (F(t) - [t >= x])**2 dt`, `[...]`, in closed form, in time
    quadratic in `S`. A scale may be 0.

    Reference:
        - [Grimit et al., 2006](https://doi.org/10.1256/qj.05.235), Eq. 5
    """
    loc, scale = draws
    spread = tf.zeros_like(loc[0])
    for one_loc, one_scale in zip(loc, scale, strict=True):
        # Not the root of a sum of squares, which overflow and underflow.
        larger = tf.maximum(scale, one_scale)
        ratio = tf.math.divide_no_nan(tf.minimum(scale, one_scale), larger)
        both = larger * tf.sqrt(1.0 + tf.square(ratio))
        distance = _mean_distance(loc - one_loc, both)
        spread += tf.reduce_mean(distance, axis=0) / len(loc)
    error = tf.reduce_mean(_mean_distance(x - loc, scale), axis=0)
    return error - 0.5 * spread


def _mean_distance(loc, scale):
    """Computes `E |N(loc, scale**2)|`."""
    ratio = _ratio(loc, scale)
    density = tf.exp(-0.5 * tf.square(ratio)) / _SQRT_2_PI
    spread = scale * (2.0 * density)
    return tf.where(
        scale > 0.0,
        spread + loc * tf.math.erf(ratio / math.sqrt(2.0)),
        abs(loc),
    )


def _ratio(loc, scale):
    """Computes `loc / scale`, limited, as TensorFlow's `erf(1e160)` is NaN."""
    return tf.clip_by_value(tf.math.divide_no_nan(loc, scale), -1e3, 1e3)
