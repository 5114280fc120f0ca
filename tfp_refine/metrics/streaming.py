"""Metrics that Keras computes batch by batch, in `fit` and `evaluate`."""

import math
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from tfp_refine import _validation
from tfp_refine.metrics import inputs

_HALF = ("bfloat16", "float16")
# How far their probabilities may be from a sum of 1, with many classes.
_HALF_TOLERANCE = 0.02


class _OfClasses(_validation.Shown, keras.metrics.Metric):
    """Base of metrics of class probabilities.

    Predictions of a batch are `[B, C]`, or draws of them, `[S, B, C]`, which
    are averaged as probabilities. Labels are class numbers, `[B]` or `[B, 1]`,
    or one-hot rows, `[B, C]`.
    """

    def __init__(
        self,
        from_logits: bool = False,
        name: str | None = None,
        dtype: str | None = None,
    ) -> None:
        super().__init__(
            name=_validation.check_name(name),
            dtype=_validation.check_dtype(dtype),
        )
        self.from_logits = bool(from_logits)

    def update_state(
        self,
        y_true: tf.Tensor,
        y_pred: tf.Tensor,
        sample_weight: tf.Tensor | None = None,
    ) -> None:
        """Adds a batch.

        Raises a `ValueError` if shapes do not fit. Labels that are not class
        numbers and probabilities that do not sum to 1 are errors too; in
        compiled programs, they make the result NaN instead.
        """
        y_true = ops.convert_to_tensor(y_true)
        y_pred = ops.convert_to_tensor(y_pred)
        is_half = keras.backend.standardize_dtype(y_pred.dtype) in _HALF
        y_pred = ops.cast(y_pred, self.dtype)
        _check_shapes(y_true, y_pred)
        labels, are_labels = _as_labels(y_true, y_pred.shape[-1])
        log_probs = (
            ops.log_softmax(y_pred) if self.from_logits else ops.log(y_pred)
        )
        are_probs = _are_probabilities(ops.exp(log_probs), is_half)
        if tf.executing_eagerly():
            _check_values(are_labels, are_probs)
        if len(y_pred.shape) == 3:
            log_probs = ops.logsumexp(log_probs, axis=0) - ops.log(
                ops.cast(ops.shape(y_pred)[0], self.dtype)
            )
            are_probs = ops.all(are_probs, axis=0)
        weights = ops.cast(
            ops.where(are_labels & are_probs, 1.0, math.nan), self.dtype
        )
        if sample_weight is not None:
            given = ops.reshape(ops.cast(sample_weight, self.dtype), [-1])
            _check_weights(given, weights)
            weights *= given
        # An example that does not count may be one with a likelihood of 0.
        log_probs = ops.where(weights[:, None] == 0.0, 0.0, log_probs)
        self._add(labels, log_probs, weights)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"from_logits": self.from_logits}


class _MeanOfClasses(_OfClasses, keras.metrics.Mean):
    """Weighted mean of a value of each example."""

    def _add(
        self, labels: tf.Tensor, log_probs: tf.Tensor, weights: tf.Tensor
    ) -> None:
        values = self._values(labels, log_probs)
        keras.metrics.Mean.update_state(self, values, weights)


@keras.saving.register_keras_serializable(package="tfp_refine")
class NegativeLogLikelihood(_MeanOfClasses):
    """Mean negative log likelihood of labels, nats.

    As `negative_log_likelihood`, over all batches; nothing is clipped.

    Args:
        from_logits: Whether predictions are logits.
        name: Name of the metric.
        dtype: Of its state.

    Example:

    ```python
    nll = tfp_refine.metrics.NegativeLogLikelihood(from_logits=True)
    loss = tfp_refine.losses.CategoricalNLL()
    model.compile("adam", loss, metrics=[nll])
    ```
    """

    def __init__(
        self,
        from_logits: bool = False,
        name: str | None = "nll",
        dtype: str | None = None,
    ) -> None:
        super().__init__(from_logits, name, dtype)

    def _values(self, labels: tf.Tensor, log_probs: tf.Tensor) -> tf.Tensor:
        return -ops.take_along_axis(log_probs, labels[:, None], axis=-1)[:, 0]


@keras.saving.register_keras_serializable(package="tfp_refine")
class BrierScore(_MeanOfClasses):
    """Mean squared distance of probabilities from labels, from 0 to 2.

    As `brier_score`, over all batches.

    Args:
        from_logits: Whether predictions are logits.
        name: Name of the metric.
        dtype: Of its state.

    Example:

    ```python
    metric = tfp_refine.metrics.BrierScore()
    metric.update_state([0, 1], [[0.9, 0.1], [0.6, 0.4]])
    metric.result()  # 0.37
    ```
    """

    def __init__(
        self,
        from_logits: bool = False,
        name: str | None = "brier_score",
        dtype: str | None = None,
    ) -> None:
        super().__init__(from_logits, name, dtype)

    def _values(self, labels: tf.Tensor, log_probs: tf.Tensor) -> tf.Tensor:
        probs = ops.exp(log_probs)
        one_hot = ops.one_hot(labels, log_probs.shape[-1], dtype=self.dtype)
        return ops.sum(ops.square(probs - one_hot), axis=-1)


@keras.saving.register_keras_serializable(package="tfp_refine")
class ExpectedCalibrationError(_OfClasses):
    """Mean gap between confidence and accuracy (ECE).

    As `expected_calibration_error`, over all batches: only the contents of the
    bins are kept.

    Args:
        num_bins: Number of bins of equal width.
        from_logits: Whether predictions are logits.
        name: Name of the metric.
        dtype: Of its state.

    Raises:
        ValueError: If `num_bins` is not a positive integer.

    Example:

    ```python
    metric = tfp_refine.metrics.ExpectedCalibrationError()
    metric.update_state([0, 1], [[0.9, 0.1], [0.6, 0.4]])
    metric.result()  # 0.35
    ```
    """

    def __init__(
        self,
        num_bins: int = 15,
        from_logits: bool = False,
        name: str | None = "ece",
        dtype: str | None = None,
    ) -> None:
        super().__init__(from_logits, name, dtype)
        self.num_bins = _validation.positive_integer("num_bins", num_bins)
        self._sums = self.add_variable((3, self.num_bins), "zeros", name="sums")

    def _add(
        self, labels: tf.Tensor, log_probs: tf.Tensor, weights: tf.Tensor
    ) -> None:
        confidence = ops.minimum(ops.exp(ops.max(log_probs, axis=-1)), 1.0)
        right = ops.cast(ops.argmax(log_probs, axis=-1) == labels, self.dtype)
        edges = ops.arange(self.num_bins + 1, dtype=self.dtype) / self.num_bins
        # Bins are (low, high]: 1 is in the last, and 0 never occurs.
        index = ops.searchsorted(edges, confidence, side="left") - 1
        members = ops.one_hot(index, self.num_bins, dtype=self.dtype)
        rows = ops.stack([ops.ones_like(right), right, confidence])
        self._sums.assign_add(ops.matmul(rows * weights, members))

    def result(self) -> tf.Tensor:
        counts, right, confidence = ops.unstack(self._sums, 3)
        gaps = ops.abs(right - confidence)
        return ops.divide_no_nan(ops.sum(gaps), ops.sum(counts))

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"num_bins": self.num_bins}


@keras.saving.register_keras_serializable(package="tfp_refine")
class MeanLoss(_validation.Shown, keras.metrics.MeanMetricWrapper):
    """Mean of a loss over all examples: that of the data alone.

    The loss that Keras reports as `"loss"` has the KL divergence in it. Masks
    of the outputs are regarded as by the loss.

    Args:
        loss: Keras loss, or its name, or a function of targets and outputs
            that returns values `[B]`.
        name: Name of the metric. Defaults to `"nll"`.
        dtype: Of its state.

    Raises:
        ValueError: If there is no such loss.

    Example:

    ```python
    loss = tfp_refine.losses.HeteroscedasticGaussianNLL()
    model.compile("adam", loss, metrics=[tfp_refine.metrics.MeanLoss(loss)])
    ```
    """

    def __init__(
        self, loss: Any, name: str = "nll", dtype: str | None = None
    ) -> None:
        try:
            self.loss = keras.losses.get(loss)
        except (TypeError, ValueError):  # unknown
            self.loss = None
        if not callable(self.loss):
            raise ValueError(
                "`loss` must be a Keras loss, its name, or a function. "
                f"Received: loss={loss!r}"
            )
        is_loss = isinstance(self.loss, keras.losses.Loss)
        super().__init__(
            self.loss.call if is_loss else self.loss,
            name=_validation.check_name(name),
            dtype=_validation.check_dtype(dtype),
        )

    def update_state(
        self,
        y_true: tf.Tensor,
        y_pred: tf.Tensor,
        sample_weight: tf.Tensor | None = None,
    ) -> None:
        mask = getattr(y_pred, "_keras_mask", None)
        values = self._fn(y_true, y_pred)
        if values is None:
            raise ValueError("`loss` must return numbers. Received: None")
        if mask is None or len(values.shape) >= len(mask.shape):
            super().update_state(y_true, y_pred, sample_weight)
        else:  # sums over positions: the loss has used the mask
            keras.metrics.Mean.update_state(self, values, sample_weight)

    def get_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "dtype": self.dtype,
            "loss": keras.losses.serialize(self.loss),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "MeanLoss":
        return cls(**config)


def _check_shapes(y_true: tf.Tensor, y_pred: tf.Tensor) -> None:
    """Checks shapes, as far as they are known."""
    shapes = tuple(y_true.shape), tuple(y_pred.shape)
    fits = len(shapes[1]) in (2, 3) and (shapes[1][-1] or 0) >= 2
    fits = fits and (
        len(shapes[0]) == 1
        or (len(shapes[0]) == 2 and shapes[0][1] in (1, shapes[1][-1]))
    )
    if fits:
        sizes = shapes[0][0], shapes[1][-2]
        fits = None in sizes or sizes[0] == sizes[1]
    if not fits:
        raise ValueError(
            "`y_pred` must have shape [B, C] or [S, B, C], and `y_true` [B], "
            f"[B, 1] or [B, C]. Received: shapes {shapes[1]} and {shapes[0]}"
        )


def _check_weights(given: tf.Tensor, weights: tf.Tensor) -> None:
    """Checks that weights are one for each example, or one for all."""
    counts = given.shape[0], weights.shape[0]
    if None not in counts and counts[0] not in (1, counts[1]):
        raise ValueError(
            "`sample_weight` must have shape [B], as the examples. Received: "
            f"{counts[0]} weights of {counts[1]} examples"
        )


def _as_labels(
    y_true: tf.Tensor, num_classes: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns class numbers, and whether they are, each `[B]`."""
    if len(y_true.shape) == 2 and y_true.shape[-1] == num_classes:
        rows = ops.cast(y_true, "float32")
        are_labels = ops.all((rows == 0.0) | (rows == 1.0), axis=-1)
        return ops.argmax(rows, axis=-1), are_labels & (
            ops.sum(rows, axis=-1) == 1.0
        )
    numbers = ops.reshape(y_true, [-1])
    labels = ops.cast(numbers, "int32")
    are_labels = (labels >= 0) & (labels < num_classes)
    are_labels &= ops.cast(labels, numbers.dtype) == numbers
    return ops.clip(labels, 0, num_classes - 1), are_labels


def _are_probabilities(probs: tf.Tensor, is_half: bool) -> tf.Tensor:
    """Finds rows that sum to 1, `[B]` or `[S, B]`; those with NaN do not."""
    tolerance = _HALF_TOLERANCE if is_half else inputs.SUM_TOLERANCE
    return ops.abs(ops.sum(probs, axis=-1) - 1.0) <= tolerance


def _check_values(are_labels: tf.Tensor, are_probs: tf.Tensor) -> None:
    if not bool(ops.all(are_labels)):
        raise ValueError(
            "`y_true` must hold class numbers, or one-hot rows. Received: "
            f"others in {int(ops.sum(~are_labels))} of {len(are_labels)} rows"
        )
    if not bool(ops.all(are_probs)):
        raise ValueError(
            "`y_pred` must hold probabilities that sum to 1 over classes (or "
            "set from_logits=True). Received: others in "
            f"{int(ops.sum(~are_probs))} of {int(ops.size(are_probs))} rows"
        )
