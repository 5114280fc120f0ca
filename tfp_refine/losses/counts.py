"""Negative log likelihoods of counts."""

from typing import Any

import keras
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfp_refine import _validation
from tfp_refine.losses import likelihood

_MIN_TOTAL_COUNT = 1e-6


class _CountsLoss(likelihood.LikelihoodLoss):
    """Base of losses of counts."""

    _support = "counts 0, 1, 2, ..."

    def _are_possible(
        self, targets: tf.Tensor, distribution: tfd.Distribution
    ) -> tf.Tensor:
        return (targets >= 0.0) & (targets == keras.ops.floor(targets))


@keras.saving.register_keras_serializable(package="tfp_refine")
class PoissonNLL(_CountsLoss):
    """Negative log likelihood of counts, given their log rate, in nats.

    It is the sum over targets, with all constants, where
    `keras.losses.Poisson` reads the rate itself, and is a mean without them.

    Args:
        name: Name of the loss.
        reduction: As for `keras.losses.Loss`.
        dtype: Data type or dtype policy of the loss.

    Call arguments:
        y_true: Counts, `[batch_size, ..., D]`; `[batch_size, ...]` if `D` is 1.
        y_pred: Logarithms of the rates, `[batch_size, ..., D]`.

    Raises:
        ValueError: If the shapes disagree.

    Example:

    ```python
    loss = tfp_refine.losses.PoissonNLL()
    loss([[2.0]], [[0.0]])  # 1.693
    ```
    """

    def __init__(
        self,
        name: str = "poisson_nll",
        *,
        reduction: str | None = "sum_over_batch_size",
        dtype: str | keras.DTypePolicy | None = None,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)

    def predictive(self, outputs: tf.Tensor) -> tfd.Distribution:
        return tfd.Poisson(log_rate=keras.ops.convert_to_tensor(outputs))


@keras.saving.register_keras_serializable(package="tfp_refine")
class NegativeBinomialNLL(_CountsLoss):
    """Negative log likelihood of overdispersed counts, in nats.

    Of mean `exp(log_mean)` and variance `mean + mean**2 / total_count`: a
    Poisson distribution whose rate is gamma distributed with the shape
    `total_count`.

    Args:
        total_count: Positive number; `None` if the second half of the outputs
            is a raw value of it, `total_count = softplus(raw) + 1e-6`.
        name: Name of the loss.
        reduction: As for `keras.losses.Loss`.
        dtype: Data type or dtype policy of the loss.

    Call arguments:
        y_true: Counts, `[batch_size, ..., D]`; `[batch_size, ...]` if `D` is 1.
        y_pred: Logarithms of the means, and raw values of `total_count` unless
            it is given: `[batch_size, ..., 2 * D]` or `[batch_size, ..., D]`.

    Raises:
        ValueError: If `total_count` is not a positive finite number, or if the
            shapes disagree.

    Example:

    ```python
    loss = tfp_refine.losses.NegativeBinomialNLL(total_count=2.0)
    loss([[0.0]], [[0.0]])  # 0.811
    ```
    """

    def __init__(
        self,
        total_count: float | None = None,
        name: str = "negative_binomial_nll",
        *,
        reduction: str | None = "sum_over_batch_size",
        dtype: str | keras.DTypePolicy | None = None,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.total_count = (
            None
            if total_count is None
            else _validation.positive("total_count", total_count)
        )

    def predictive(self, outputs: tf.Tensor) -> tfd.Distribution:
        if self.total_count is None:
            log_mean, raw = likelihood.heads(
                self, outputs, ["a log mean", "a raw total count"]
            )
            total_count = keras.ops.softplus(raw) + _MIN_TOTAL_COUNT
        else:
            log_mean = keras.ops.convert_to_tensor(outputs)
            total_count = keras.ops.full_like(log_mean, self.total_count)
        return tfd.NegativeBinomial(
            total_count, logits=log_mean - keras.ops.log(total_count)
        )

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "total_count": self.total_count}
