"""KL divergence from a fixed Gaussian prior."""

import copy

import keras
import tensorflow as tf

from tfp_refine.math import gaussian
from tfp_refine.regularizers import kl_regularizer
from tfp_refine.regularizers import prior_scale as prior_scale_lib


@keras.saving.register_keras_serializable(package="tfp_refine")
class GaussianKL(kl_regularizer.KLRegularizer):
    """KL divergence of the posterior from the fixed prior `N(0, scale**2)`.

    Args:
        prior_scale: Standard deviation of the prior: a number; `"fan_in"`, for
            the variance `1 / fan_in`; or `"he"`, for `2 / fan_in`. A bias has
            the fan-in of its kernel. Defaults to `1.0`.

    Example:
    ```python
    layer = tfp_refine.layers.DenseFlipout(
        10,
        kernel_regularizer=tfp_refine.regularizers.GaussianKL(0.5),
        num_train_examples=60000,
    )
    ```

    Raises:
        ValueError: If `prior_scale` is neither a positive finite number nor one
            of the names.
    """

    def __init__(self, prior_scale: float | str = 1.0) -> None:
        self.prior_scale = prior_scale_lib.check("prior_scale", prior_scale)

    def for_fan_in(self, fan_in: int) -> kl_regularizer.KLRegularizer:
        resolved = copy.copy(self)
        resolved.prior_scale = prior_scale_lib.resolve(self.prior_scale, fan_in)
        return resolved

    def prior(
        self,
        loc: tf.Tensor,
        scale: tf.Tensor,
        prior_weights: kl_regularizer.PriorWeights = (),
    ) -> gaussian.Gaussian:
        scale = keras.ops.convert_to_tensor(
            prior_scale_lib.number(self.prior_scale), dtype=loc.dtype
        )
        return gaussian.Gaussian(keras.ops.zeros_like(scale), scale)
