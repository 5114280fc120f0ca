"""Posteriors that start with orthogonal means."""

import keras

from tfp_refine.initializers import initializer


class Orthogonal(initializer.PosteriorInitializer):
    """Starts kernels at orthogonal means and variance `2 / fan_in`.

    The columns of the units, or if there are more of those than inputs the
    rows, are orthonormal. Biases have mean 0 and the same variance.

    Args:
        seed: As for `PosteriorInitializer`.
        verbose: Likewise.

    References:
        - [Saxe et al., 2014](https://arxiv.org/abs/1312.6120)
        - [Rossi et al., 2019](https://arxiv.org/abs/1810.08083), Sec. 4
    """

    def _initialize_layer(self, layer, rng):
        draw = keras.initializers.Orthogonal(seed=int(rng.integers(2**31 - 1)))
        shape = layer.columns(layer.kernel).shape
        initializer.assign(layer, draw(shape, "float32"), 2.0 / shape[0])
