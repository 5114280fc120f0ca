"""Posteriors that start as wide as trained weights are large."""

import keras

from tfp_refine import arguments
from tfp_refine.initializers import initializer


class MOPED(initializer.PosteriorInitializer):
    """Keeps the posteriors' means; scales become a part of their size.

    For means that are trained weights, such as `models.to_bayesian` leaves:
    `scale = max(delta * abs(mean), min_scale)`.

    Args:
        delta: Scale of a weight over its size. Defaults to `0.1`.
        min_scale: Least standard deviation, that of means of 0. Defaults to
            `1e-4`.
        seed: Not used.
        verbose: As for `PosteriorInitializer`. Defaults to `False`.

    Raises:
        ValueError: If an argument is not positive.

    Reference:
        - [Krishnan et al., 2020](https://arxiv.org/abs/1906.05323)
    """

    def __init__(self, delta=0.1, min_scale=1e-4, seed=None, verbose=False):
        super().__init__(seed, verbose)
        self.delta = arguments.positive("delta", delta)
        self.min_scale = arguments.positive("min_scale", min_scale)

    def _initialize_layer(self, layer, rng):
        for weight in layer.variational_weights:
            if weight.loc.trainable:
                loc = keras.ops.convert_to_tensor(weight.loc)
                scale = self.delta * keras.ops.abs(loc)
                weight.initialize(loc, keras.ops.maximum(scale, self.min_scale))
