"""Dropout that also acts in predictions."""

import keras

from tfp_refine import _validation
from tfp_refine.layers import mean_weights
from tfp_refine.layers import random_layer


@keras.saving.register_keras_serializable(package="tfp_refine")
class MCDropout(random_layer.RandomLayer, keras.layers.Dropout):
    """Dropout in training and in predictions, whose draws differ by it.

    Networks with it before their layers are variational: their posterior is
    that each input of a layer is there or not. The prior is a weight decay of
    the next layer's: `keras.regularizers.L2(0.5 * (1 - rate) / (N * s**2))` of
    its kernel divided by `1 - rate`, for the prior `N(0, s**2)` and `N`
    training examples.

    Inside `tfp_refine.layers.mean_weights`, and with `sample=False` of
    `tfp_refine.predict`, nothing is dropped.

    Args:
        rate: Probability of dropping, in [0, 1).
        noise_shape: As for `keras.layers.Dropout`.
        seed: Integer that fixes the noise; fresh if `None`.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: Tensor, `[B, ...]`.
        training: Of no importance.

    Reference:
        - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02142)
    """

    def __init__(self, rate, noise_shape=None, seed=None, **kwargs):
        # Before Keras, which makes a generator of its own unless the rate is 0,
        # and locks the layer.
        self.seed_generator = random_layer.SeedGenerator(seed)
        super().__init__(0.0, noise_shape=noise_shape, **kwargs)
        if rate != 0:
            self.rate = _validation.proportion("rate", rate, one=False)
        self.seed = seed

    def call(self, inputs, training=None):
        return super().call(inputs, training=not mean_weights.is_active())
