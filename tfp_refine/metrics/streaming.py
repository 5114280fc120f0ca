"""Metrics that Keras computes batch by batch, in `fit` and `evaluate`."""

import keras
from keras import ops

from tfp_refine import arguments


class _OfClasses(keras.metrics.Metric):
    """Base of metrics of class probabilities.

    Predictions of a batch are `[B, C]`, or draws of them, `[S, B, C]`, which
    are averaged as probabilities. Labels are class numbers, `[B]` or `[B, 1]`,
    or one-hot rows, `[B, C]`.

    Args:
        from_logits: Whether predictions are logits.
        name: Name of the metric.
        dtype: Of its state.
    """

    def __init__(self, from_logits=False, name=None, dtype=None):
        super().__init__(name=name, dtype=dtype)
        self.from_logits = bool(from_logits)

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Adds a batch.

        Args:
            y_true: Labels.
            y_pred: Predictions.
            sample_weight: Weights, `[B]`; ones if `None`.
        """
        y_pred = ops.cast(y_pred, self.dtype)
        log_probs = (
            ops.log_softmax(y_pred) if self.from_logits else ops.log(y_pred)
        )
        if len(y_pred.shape) == 3:
            log_probs = ops.logsumexp(log_probs, axis=0) - ops.log(
                ops.cast(ops.shape(y_pred)[0], self.dtype)
            )
        y_true = ops.convert_to_tensor(y_true)
        num_classes = log_probs.shape[-1]
        is_one_hot = len(y_true.shape) == 2 and y_true.shape[-1] == num_classes
        labels = (
            ops.argmax(y_true, axis=-1)
            if is_one_hot
            else ops.reshape(ops.cast(y_true, "int32"), [-1])
        )
        if sample_weight is None:
            sample_weight = ops.ones_like(labels)
        self._add(
            labels,
            log_probs,
            ops.reshape(ops.cast(sample_weight, self.dtype), [-1]),
        )

    def get_config(self):
        return super().get_config() | {"from_logits": self.from_logits}


class _MeanOfClasses(_OfClasses):
    """Weighted mean of a value of each example."""

    def __init__(self, from_logits=False, name=None, dtype=None):
        super().__init__(from_logits, name, dtype)
        self._total = self.add_variable((), "zeros", name="total")
        self._count = self.add_variable((), "zeros", name="count")

    def _add(self, labels, log_probs, weights):
        self._total.assign_add(
            ops.sum(weights * self._values(labels, log_probs))
        )
        self._count.assign_add(ops.sum(weights))

    def result(self):
        return ops.divide_no_nan(self._total, self._count)


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
    model.compile("adam", loss, metrics=[nll])
    ```
    """

    def __init__(self, from_logits=False, name="nll", dtype=None):
        super().__init__(from_logits, name, dtype)

    def _values(self, labels, log_probs):
        return -ops.take_along_axis(log_probs, labels[:, None], axis=-1)[:, 0]


@keras.saving.register_keras_serializable(package="tfp_refine")
class BrierScore(_MeanOfClasses):
    """Mean squared distance of probabilities from labels, from 0 to 2.

    As `brier_score`, over all batches.

    Args:
        from_logits: Whether predictions are logits.
        name: Name of the metric.
        dtype: Of its state.
    """

    def __init__(self, from_logits=False, name="brier_score", dtype=None):
        super().__init__(from_logits, name, dtype)

    def _values(self, labels, log_probs):
        probs = ops.exp(log_probs)
        one_hot = ops.one_hot(labels, log_probs.shape[-1], dtype=self.dtype)
        return ops.sum(ops.square(probs - one_hot), axis=-1)


@keras.saving.register_keras_serializable(package="tfp_refine")
class ExpectedCalibrationError(_OfClasses):
    """Mean gap between confidence and accuracy (ECE).

    As `expected_calibration_error`, over all batches: what is kept is the
    content of the bins.

    Args:
        num_bins: Number of bins of equal width.
        from_logits: Whether predictions are logits.
        name: Name of the metric.
        dtype: Of its state.

    Raises:
        ValueError: If `num_bins` is not a positive integer.
    """

    def __init__(self, num_bins=15, from_logits=False, name="ece", dtype=None):
        super().__init__(from_logits, name, dtype)
        self.num_bins = arguments.positive_integer("num_bins", num_bins)
        self._sums = self.add_variable((3, self.num_bins), "zeros", name="sums")

    def _add(self, labels, log_probs, weights):
        confidence = ops.minimum(ops.exp(ops.max(log_probs, axis=-1)), 1.0)
        right = ops.cast(ops.argmax(log_probs, axis=-1) == labels, self.dtype)
        edges = ops.arange(self.num_bins + 1, dtype=self.dtype) / self.num_bins
        # Bins are (low, high]: 1 is in the last, and 0 never occurs.
        index = ops.searchsorted(edges, confidence, side="left") - 1
        members = ops.one_hot(index, self.num_bins, dtype=self.dtype)
        rows = ops.stack([ops.ones_like(right), right, confidence])
        self._sums.assign_add(ops.matmul(rows * weights, members))

    def result(self):
        counts, right, confidence = ops.unstack(self._sums, 3)
        gaps = ops.abs(right - confidence)
        return ops.divide_no_nan(ops.sum(gaps), ops.sum(counts))

    def get_config(self):
        return super().get_config() | {"num_bins": self.num_bins}
