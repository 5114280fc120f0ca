"""The scale mixture of two Gaussians, a prior with a spike and heavy tails."""

import math

import tensorflow as tf

from tfp_refine.math import gaussian


def log_prob(
    x: tf.Tensor, weight: float, scale_1: float, scale_2: float
) -> tf.Tensor:
    """Computes the log density, nats, `[...]`, element by element.

    `weight N(0, scale_1**2) + (1 - weight) N(0, scale_2**2)`.

    Reference:
        - [Blundell et al., 2015](https://arxiv.org/abs/1505.05424), equation 7
    """
    components = [
        math.log(probability)
        + gaussian.log_prob(
            x, gaussian.Gaussian(tf.zeros([], x.dtype), tf.constant(s, x.dtype))
        )
        for probability, s in ((weight, scale_1), (1.0 - weight, scale_2))
    ]
    return tf.reduce_logsumexp(tf.stack(components), axis=0)
