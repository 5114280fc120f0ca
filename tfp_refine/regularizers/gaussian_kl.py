"""KL divergence from a fixed Gaussian prior."""

import keras

from tfp_refine import arguments
from tfp_refine.math import gaussian
from tfp_refine.regularizers import kl_regularizer


@keras.saving.register_keras_serializable(package="tfp_refine")
class GaussianKL(kl_regularizer.KLRegularizer):
    """KL divergence of the posterior from the fixed prior `N(0, scale**2)`.

    Args:
        prior_scale: Standard deviation of the prior. Defaults to `1.0`.

    Example:
    ```python
    layer = tfp_refine.layers.DenseFlipout(
        10,
        kernel_regularizer=tfp_refine.regularizers.GaussianKL(0.5),
        num_train_examples=60000,
    )
    ```

    Raises:
        ValueError: If `prior_scale` is not a positive finite number.
    """

    def __init__(self, prior_scale=1.0):
        self.prior_scale = arguments.positive("prior_scale", prior_scale)

    def prior(self, loc, scale, prior_weights=()):
        scale = keras.ops.convert_to_tensor(self.prior_scale, dtype=loc.dtype)
        return gaussian.Gaussian(keras.ops.zeros_like(scale), scale)

    def get_config(self):
        return {"prior_scale": self.prior_scale}
