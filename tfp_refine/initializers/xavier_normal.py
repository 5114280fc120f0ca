"""Posteriors that start with the variance of Glorot and Bengio."""

import math

import tensorflow as tf

from tfp_refine.initializers import initializer


class XavierNormal(initializer.PosteriorInitializer):
    """Starts posteriors at mean 0, variance `2 / (fan_in + fan_out)`.

    So that draws of the weights, biases too, are what Glorot and Bengio draw as
    initial weights.

    Args:
        seed: Not used.
        verbose: As for `PosteriorInitializer`.

    References:
        - [Glorot and Bengio, 2010](https://proceedings.mlr.press/v9/glorot10a.html)
        - [Rossi et al., 2019](https://arxiv.org/abs/1810.08083), Sec. 4
    """

    def _initialize_layer(self, layer, rng):
        fan_in, units = layer.columns(layer.kernel).shape
        positions = math.prod(getattr(layer, "kernel_size", ()))
        fan_out = units // layer.num_groups * positions
        initializer.assign(
            layer, tf.zeros([fan_in, units]), 2.0 / (fan_in + fan_out)
        )
