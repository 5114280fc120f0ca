"""Negative log likelihood of a Gaussian with known noise."""

from typing import Any

import keras
import tensorflow as tf

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
        reduction: As for `keras.losses.Loss`.
        dtype: Data type or dtype policy of the loss.

    Call arguments:
        y_true: Targets, `[batch_size, ..., D]`.
        y_pred: Means, `[batch_size, ..., D]`.

    Raises:
        ValueError: If `scale` is not a positive finite number, or if the
            shapes disagree.
    """

    def __init__(
        self,
        scale: float = 1.0,
        name: str = "gaussian_nll",
        *,
        reduction: str | None = "sum_over_batch_size",
        dtype: str | keras.DTypePolicy | None = None,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.scale = _validation.positive("scale", scale)

    def loc_and_scale(self, outputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        loc = keras.ops.convert_to_tensor(outputs)
        return loc, keras.ops.full_like(loc, self.scale)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "scale": self.scale}
