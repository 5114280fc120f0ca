"""Gaussian negative log likelihoods, of known and of predicted noise."""

import math
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfp_refine import _validation
from tfp_refine.losses import likelihood
from tfp_refine.math import gaussian
from tfp_refine.math import softplus

_MIN_VARIANCE = 1e-6


@keras.saving.register_keras_serializable(package="tfp_refine")
class GaussianLoss(likelihood.LikelihoodLoss):
    """Base of losses that read a Gaussian from the outputs of a model."""

    def loc_and_scale(self, outputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Reads mean and standard deviation from outputs.

        Args:
            outputs: Outputs of a model, `[..., K]`: of a batch, or draws of
                them.

        Returns:
            loc: Mean, `[..., D]`.
            scale: Standard deviation, `[..., D]`.

        Raises:
            NotImplementedError: If a subclass does not implement it.
            ValueError: If the loss reads no such outputs.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must implement `loc_and_scale`"
        )

    def predictive(self, outputs: tf.Tensor) -> tfd.Distribution:
        return tfd.Normal(*self.loc_and_scale(outputs))

    def _log_prob(
        self, targets: tf.Tensor, distribution: tfd.Distribution
    ) -> tf.Tensor:
        # Exact for small scales too, where `tfd.Normal` cancels.
        return gaussian.log_prob(
            targets, gaussian.Gaussian(distribution.loc, distribution.scale)
        )


@keras.saving.register_keras_serializable(package="tfp_refine")
class GaussianNLL(GaussianLoss):
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

    Example:

    ```python
    loss = tfp_refine.losses.GaussianNLL(scale=0.5)
    loss([[0.0]], [[1.0]])  # 2.226
    ```
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
        self.scale = _validation.scale("scale", scale)

    def loc_and_scale(self, outputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        loc = keras.ops.convert_to_tensor(outputs)
        return loc, keras.ops.full_like(loc, self.scale)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "scale": self.scale}


@keras.saving.register_keras_serializable(package="tfp_refine")
class HeteroscedasticGaussianNLL(GaussianLoss):
    """Negative log likelihood of a Gaussian with two heads, in nats.

    The first half of the last axis of `y_pred` is the mean, the second half a
    raw, unconstrained value of the noise. It serves models with a noise head of
    their own and models that end in `layers.HomoscedasticNoise`.

    Args:
        noise: Meaning of a raw value. `"softplus_scale"`: the standard
            deviation is `softplus(raw)`; `"softplus_variance"`: the variance is
            `softplus(raw) + 1e-6` (Lakshminarayanan et al.);
            `"log_variance"`: the variance is `exp(raw)` (Tomczak et al.).
            Defaults to `"softplus_scale"`.
        name: Name of the loss.
        reduction: As for `keras.losses.Loss`.
        dtype: Data type or dtype policy of the loss.

    Call arguments:
        y_true: Targets, `[batch_size, ..., D]`.
        y_pred: Means and raw values, `[batch_size, ..., 2 * D]`.

    Raises:
        ValueError: If `noise` is unknown, or if the shapes disagree.

    Example:

    ```python
    model = keras.Sequential([keras.Input((13,)), keras.layers.Dense(2)])
    model.compile("adam", tfp_refine.losses.HeteroscedasticGaussianNLL())
    model.fit(x_train, y_train)
    ```

    Reference:
        - [Lakshminarayanan et al., 2017](https://arxiv.org/abs/1612.01474)
    """

    def __init__(
        self,
        noise: str = "softplus_scale",
        name: str = "heteroscedastic_gaussian_nll",
        *,
        reduction: str | None = "sum_over_batch_size",
        dtype: str | keras.DTypePolicy | None = None,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.noise = _validation.one_of("noise", noise, sorted(_SCALES))

    def loc_and_scale(self, outputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        loc, raw = likelihood.heads(
            self, outputs, ["a mean", "a raw noise value"]
        )
        return loc, _SCALES[self.noise](raw)

    def raw_noise(self, scale: float) -> float:
        """Computes the raw value of a noise, the inverse of its reading.

        Args:
            scale: Standard deviation, a positive number.

        Returns:
            raw: A number; of the least noise there is, if `scale` is less.
        """
        return _RAW_VALUES[self.noise](_validation.positive("scale", scale))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "noise": self.noise}


_SCALES: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "log_variance": lambda raw: keras.ops.exp(0.5 * raw),
    "softplus_scale": keras.ops.softplus,
    "softplus_variance": lambda raw: keras.ops.sqrt(
        keras.ops.softplus(raw) + _MIN_VARIANCE
    ),
}
_RAW_VALUES: dict[str, Callable[[float], float]] = {
    "log_variance": lambda scale: 2.0 * math.log(scale),
    "softplus_scale": softplus.inverse_of_float,
    "softplus_variance": lambda scale: softplus.inverse_of_float(
        max(scale**2 - _MIN_VARIANCE, _MIN_VARIANCE**2)
    ),
}
