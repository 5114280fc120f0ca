"""Posteriors that start with a variance of one over the fan-in."""

import tensorflow as tf

from tfp_refine.initializers import initializer


class Heuristic(initializer.PosteriorInitializer):
    """Starts posteriors at mean 0 and variance `1 / fan_in`, biases too.

    Args:
        seed: Not used.
        verbose: As for `PosteriorInitializer`.

    Reference:
        - [Rossi et al., 2019](https://arxiv.org/abs/1810.08083), Sec. 4
    """

    def _initialize_layer(self, layer, rng):
        shape = layer.columns(layer.kernel).shape
        initializer.assign(layer, tf.zeros(shape), 1.0 / shape[0])
