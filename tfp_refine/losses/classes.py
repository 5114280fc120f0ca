"""Negative log likelihoods of labels and classes, from logits."""

import math
from typing import Any
from typing import ClassVar

import keras
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfp_refine.losses import likelihood
from tfp_refine.math import ordinal


@keras.saving.register_keras_serializable(package="tfp_refine")
class BernoulliNLL(likelihood.LikelihoodLoss):
    """Negative log likelihood of labels 0 and 1, given logits, in nats.

    It is the sum over labels that do not exclude each other, where
    `keras.losses.BinaryCrossentropy` is the mean.

    Args:
        name: Name of the loss.
        reduction: As for `keras.losses.Loss`.
        dtype: Data type or dtype policy of the loss.

    Call arguments:
        y_true: Labels, `[batch_size, ..., D]`; `[batch_size, ...]` if `D` is 1.
        y_pred: Logits of 1, `[batch_size, ..., D]`.

    Raises:
        ValueError: If the shapes disagree, or the model ends in a sigmoid.

    Example:

    ```python
    model = keras.Sequential([keras.Input((13,)), keras.layers.Dense(5)])
    model.compile("adam", tfp_refine.losses.BernoulliNLL())
    ```
    """

    from_logits: ClassVar[bool] = True
    _support = "0 or 1"

    def __init__(
        self,
        name: str = "bernoulli_nll",
        *,
        reduction: str | None = "sum_over_batch_size",
        dtype: str | keras.DTypePolicy | None = None,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)

    def predictive(self, outputs: tf.Tensor) -> tfd.Distribution:
        return tfd.Bernoulli(keras.ops.convert_to_tensor(outputs))

    def _are_possible(
        self, targets: tf.Tensor, distribution: tfd.Distribution
    ) -> tf.Tensor:
        return (targets == 0.0) | (targets == 1.0)


class _ClassesLoss(likelihood.LikelihoodLoss):
    """Base of losses of classes that exclude each other."""

    def _targets(
        self, y_true: tf.Tensor, shape: Any, distribution: tfd.Distribution
    ) -> tf.Tensor:
        num_classes = distribution.logits.shape[-1]
        rank = len(y_true.shape)
        if rank == len(shape) + 1 and y_true.shape[-1] == num_classes:
            is_one_hot = keras.ops.all(
                (y_true == 0.0) | (y_true == 1.0), axis=-1
            ) & (keras.ops.sum(y_true, axis=-1) == 1.0)
            numbers = keras.ops.cast(
                keras.ops.argmax(y_true, axis=-1), y_true.dtype
            )
            y_true = keras.ops.where(is_one_hot, numbers, math.nan)
        elif rank == len(shape) + 1 and y_true.shape[-1] == 1:
            y_true = keras.ops.squeeze(y_true, -1)
        return super()._targets(y_true, shape, distribution)

    def _are_possible(
        self, targets: tf.Tensor, distribution: tfd.Distribution
    ) -> tf.Tensor:
        num_classes = distribution.logits.shape[-1]
        return (
            (targets >= 0.0)
            & (targets < num_classes)
            & (targets == keras.ops.floor(targets))
        )

    def _log_prob(
        self, targets: tf.Tensor, distribution: tfd.Distribution
    ) -> tf.Tensor:
        return distribution.log_prob(keras.ops.cast(targets, "int32"))

    def _support_of(self, distribution: tfd.Distribution) -> str:
        num_classes = distribution.logits.shape[-1]
        return f"class numbers in [0, {num_classes}), or one-hot rows"

    def _described(self, target: float) -> str:
        return (
            "a row that is not one-hot"
            if math.isnan(target)
            else super()._described(target)
        )


@keras.saving.register_keras_serializable(package="tfp_refine")
class CategoricalNLL(_ClassesLoss):
    """Negative log likelihood of one class of several, given logits, in nats.

    For a class at each position, of a sequence or an image, it is the sum over
    the positions that the mask does not leave out, where
    `keras.losses.SparseCategoricalCrossentropy` is the mean.

    Args:
        name: Name of the loss.
        reduction: As for `keras.losses.Loss`.
        dtype: Data type or dtype policy of the loss.

    Call arguments:
        y_true: Class numbers, `[batch_size, ...]` or `[batch_size, ..., 1]`, or
            one-hot rows, `[batch_size, ..., C]`.
        y_pred: Logits, `[batch_size, ..., C]`.

    Raises:
        ValueError: If the shapes disagree, there are less than two classes, or
            the model ends in a softmax.

    Example:

    ```python
    tokens = keras.Input([None], dtype="int32")
    x = keras.layers.Embedding(1000, 16, mask_zero=True)(tokens)
    tagger = keras.Model(tokens, keras.layers.Dense(17)(x))
    tagger.compile("adam", tfp_refine.losses.CategoricalNLL())
    ```
    """

    from_logits: ClassVar[bool] = True

    def __init__(
        self,
        name: str = "categorical_nll",
        *,
        reduction: str | None = "sum_over_batch_size",
        dtype: str | keras.DTypePolicy | None = None,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)

    def predictive(self, outputs: tf.Tensor) -> tfd.Distribution:
        outputs = keras.ops.convert_to_tensor(outputs)
        if len(outputs.shape) == 0 or (outputs.shape[-1] or 0) < 2:
            raise ValueError(
                "CategoricalNLL reads the logits of two classes or more. For "
                "one logit, use BernoulliNLL. Received: outputs of shape "
                f"{tuple(outputs.shape)}"
            )
        return tfd.Categorical(outputs)


@keras.saving.register_keras_serializable(package="tfp_refine")
class OrdinalNLL(_ClassesLoss):
    """Negative log likelihood of ordered classes, in nats.

    A cumulative logit model: `P(y <= k) = sigmoid(logits[k])`, where
    `logits = y_pred[0] + cumsum(softplus(y_pred[1:]))` increase.

    Args:
        name: Name of the loss.
        reduction: As for `keras.losses.Loss`.
        dtype: Data type or dtype policy of the loss.

    Call arguments:
        y_true: Class numbers, `[batch_size, ...]` or `[batch_size, ..., 1]`, or
            one-hot rows, `[batch_size, ..., C]`.
        y_pred: The first logit and raw differences of the others,
            `[batch_size, ..., C - 1]`.

    Raises:
        ValueError: If the shapes disagree, or the model ends in a sigmoid.

    Example:

    ```python
    loss = tfp_refine.losses.OrdinalNLL()
    loss([0, 2], [[0.0, 1.0], [-2.0, 3.0]])  # 1.021
    ```

    Reference:
        - [McCullagh, 1980](https://doi.org/10.1111/j.2517-6161.1980.tb01109.x)
    """

    from_logits: ClassVar[bool] = True

    def __init__(
        self,
        name: str = "ordinal_nll",
        *,
        reduction: str | None = "sum_over_batch_size",
        dtype: str | keras.DTypePolicy | None = None,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)

    def predictive(self, outputs: tf.Tensor) -> tfd.Distribution:
        outputs = keras.ops.convert_to_tensor(outputs)
        if len(outputs.shape) == 0:
            raise ValueError(
                "OrdinalNLL reads a row of C - 1 values for C classes. "
                f"Received: outputs of shape {tuple(outputs.shape)}"
            )
        return tfd.Categorical(ordinal.log_probs(outputs))
