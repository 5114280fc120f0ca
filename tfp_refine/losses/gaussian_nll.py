"""Negative log likelihood of a Gaussian with known noise."""

import keras

from tfp_refine import _validation
from tfp_refine.losses import gaussian_loss


@keras.saving.register_keras_serializable(package="tfp_refine")
class GaussianNLL(gaussian_loss.GaussianLoss):
    """Negative log likelihood of `N(y_pred, scale**2)`, in nats.

    Unlike the mean squared error, it is a log density with all its constants:
    `mse` stands for a noise variance of 1/2.

    Args:
        scale: Standard deviation of the observation noise, in the units of
            the targets. Defaults to `1.0`.
        name: Name of the loss.
        **kwargs: Arguments of `keras.losses.Loss`, such as `reduction`.

    Call arguments:
        y_true: Targets, `[batch_size, ..., D]`.
        y_pred: Means, `[batch_size, ..., D]`.

    Raises:
        ValueError: If `scale` is not a positive finite number, or if the
            shapes disagree.
    """

    def __init__(self, scale=1.0, name="gaussian_nll", **kwargs):
        super().__init__(name=name, **kwargs)
        self.scale = _validation.positive("scale", scale)

    def loc_and_scale(self, outputs):
        loc = keras.ops.convert_to_tensor(outputs)
        return loc, keras.ops.full_like(loc, self.scale)

    def get_config(self):
        return {**super().get_config(), "scale": self.scale}
