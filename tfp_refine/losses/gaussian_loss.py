"""What the Gaussian negative log likelihoods share."""

import keras
import tensorflow as tf

from tfp_refine.math import gaussian


@keras.saving.register_keras_serializable(package="tfp_refine")
class GaussianLoss(keras.losses.Loss):
    """Base of losses that read a Gaussian from the outputs of a model."""

    def loc_and_scale(self, outputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Reads mean and standard deviation, `[..., D]`, from outputs."""
        raise NotImplementedError(
            f"{type(self).__name__} must implement `loc_and_scale`"
        )

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        loc, scale = self.loc_and_scale(y_pred)
        if len(loc.shape) < 2:  # the sum below would be one over the batch
            raise ValueError(
                "The model must output a row of means for each example, "
                "[batch_size, ..., D]. Received: means of shape "
                f"{tuple(loc.shape)}"
            )
        y_true = keras.ops.cast(y_true, loc.dtype)
        if len(y_true.shape) == len(loc.shape) - 1 and loc.shape[-1] == 1:
            y_true = keras.ops.expand_dims(y_true, -1)
        if len(y_true.shape) != len(loc.shape) or any(
            a is not None and b is not None and a != b
            for a, b in zip(y_true.shape, loc.shape, strict=True)
        ):
            raise ValueError(
                "The targets must have the shape of the predicted means. "
                f"Received: y_true.shape={tuple(y_true.shape)}, means of shape "
                f"{tuple(loc.shape)}"
            )
        log_prob = gaussian.log_prob(y_true, gaussian.Gaussian(loc, scale))
        # [B]: a mean over positions would weigh the likelihood down.
        return -keras.ops.sum(log_prob, axis=tuple(range(1, len(loc.shape))))
