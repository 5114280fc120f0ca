"""Dropout that also acts in predictions."""

from collections.abc import Sequence

import keras
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine.layers import argument_checks
from tfp_refine.layers import argument_types
from tfp_refine.layers import docstrings
from tfp_refine.layers import noise as random_draws
from tfp_refine.layers import random_layer
from tfp_refine.layers import scopes
from tfp_refine.math import philox


@docstrings.public_layer
class MCDropout(random_layer.RandomLayer, keras.layers.Dropout):
    """Dropout in training and in predictions, which makes them random.

    A network with dropout before its layers is variational: in its posterior
    each input of a layer is present or absent. The prior is a weight decay of
    the next layer: `keras.regularizers.L2(0.5 * (1 - rate) / (N * s**2))` of
    its kernel divided by `1 - rate`, for the prior `N(0, s**2)` and `N`
    training examples.

    Inside `tfp_refine.layers.mean_weights`, and with `sample=False` of
    `tfp_refine.predict`, nothing is dropped.

    {args}

    Call arguments:
        inputs: Tensor, `[B, ...]`.
        training: Ignored.

    Raises:
        ValueError: If `rate` is not in [0, 1).

    Example:

    ```python
    layer = tfp_refine.layers.MCDropout(0.1)
    outputs = layer(np.ones((2, 50)))  # random, in predictions too
    ```

    Reference:
        - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02142)
    """

    def __init__(
        self,
        rate: float,
        noise_shape: Sequence[int | None] | None = None,
        seed: int | None = None,
        *,
        name: str | None = None,
        dtype: argument_types.DType = None,
        trainable: bool = True,
    ) -> None:
        argument_checks.check(locals())
        # Before Keras, which makes a generator of its own unless the rate is 0,
        # and locks the layer.
        self.seed_generator = random_layer.SeedGenerator(seed)
        super().__init__(
            0.0,
            noise_shape=noise_shape,
            name=name,
            dtype=dtype,
            trainable=trainable,
        )
        self.rate = _validation.not_negative("rate", rate)
        if self.rate:
            _validation.proportion("rate", rate, one=False)
        self.seed = seed

    def call(
        self, inputs: tf.Tensor, training: bool | None = None
    ) -> tf.Tensor:
        if scopes.uses_means() or self.rate == 0:
            return inputs
        if self.noise_shape and not (
            len(self.noise_shape) == len(inputs.shape)
            and all(
                wanted in (None, 1, size) or size is None
                for wanted, size in zip(
                    self.noise_shape, inputs.shape, strict=True
                )
            )
        ):
            raise ValueError(
                "`noise_shape` must hold, for each axis of the inputs, its "
                "size, 1 or None. Received: noise_shape="
                f"{self.noise_shape} for inputs of shape {tuple(inputs.shape)}"
            )
        noise_shape = self.noise_shape and [
            keras.ops.shape(inputs)[axis] if size is None else size
            for axis, size in enumerate(self.noise_shape)
        ]
        return philox.dropout(
            inputs,
            self.rate,
            random_draws.next_seed(self.seed_generator),
            noise_shape,
        )
