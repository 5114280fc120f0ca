"""Calibration: how often predictions of each confidence are right."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from keras import ops

from tfp_refine import _validation
from tfp_refine.metrics import inputs


class CalibrationBins(NamedTuple):
    """Predictions sorted into `K` bins of confidence of equal width.

    A bin is `(edges[k], edges[k + 1]]`: a confidence of 1 is in the last one.
    Means over an empty bin are NaN.

    Attributes:
        counts: Number of predictions, int array, `[K]`; they sum to `N`.
        accuracy: Fraction of predictions that are right, `[K]`.
        confidence: Mean probability of the predicted class, `[K]`.
        edges: From 0 to 1, `[K + 1]`.

    Example:

    ```python
    bins = tfp_refine.metrics.calibration_bins(
        [0, 1], [[0.9, 0.1], [0.6, 0.4]], num_bins=2
    )
    bins.accuracy[1] - bins.confidence[1]  # -0.25
    ```
    """

    counts: np.ndarray
    accuracy: np.ndarray
    confidence: np.ndarray
    edges: np.ndarray


def calibration_bins(
    y_true: npt.ArrayLike,
    probs: npt.ArrayLike,
    num_bins: int = 15,
    from_logits: bool = False,
) -> CalibrationBins:
    """Sorts predictions by confidence, for a reliability diagram.

    Probabilities are averaged over draws first. The prediction is the most
    probable class, of equally probable ones the first; its probability is the
    confidence.

    Args:
        y_true: Class numbers, `[N]` or `[N, 1]`, or one-hot rows, `[N, C]`.
        probs: Probabilities (or logits) of each draw, `[S, N, C]`, or averaged
            probabilities, `[N, C]`.
        num_bins: `K`, number of bins of equal width.
        from_logits: Whether `probs` holds logits.

    Returns:
        bins: `CalibrationBins`.

    Raises:
        ValueError: If `num_bins` is not a positive integer, shapes do not fit,
            labels are not in `[0, C)`, values are not finite, or probabilities
            do not sum to 1.

    Example:

    ```python
    bins = tfp_refine.metrics.calibration_bins(
        [0, 1], [[0.9, 0.1], [0.6, 0.4]], num_bins=2
    )
    bins.counts  # [0, 2]
    ```

    Reference:
        - [Guo et al., 2017](https://arxiv.org/abs/1706.04599)
    """
    _validation.positive_integer("num_bins", num_bins)
    probs = inputs.as_averaged_probabilities("probs", probs, from_logits)
    labels = inputs.as_labels(y_true, *probs.shape)
    probs, labels = map(ops.convert_to_numpy, (probs, labels))
    predicted = np.argmax(probs, axis=-1)
    confidence = np.max(probs, axis=-1)
    # Quotients, not multiples of a rounded width: 3 / 15 is the float 0.2.
    edges = np.arange(num_bins + 1) / num_bins
    # One less than the index of the first edge >= confidence, which is in
    # (0, 1] and the last edge 1: no prediction is lost.
    index = np.searchsorted(edges, confidence, side="left") - 1
    counts = np.bincount(index, minlength=num_bins)

    def mean(values: np.ndarray) -> np.ndarray:
        totals = np.bincount(index, weights=values, minlength=num_bins)
        empty = np.full(num_bins, np.nan)
        return np.divide(totals, counts, out=empty, where=counts > 0)

    return CalibrationBins(
        counts, mean(predicted == labels), mean(confidence), edges
    )


def expected_calibration_error(
    y_true: npt.ArrayLike,
    probs: npt.ArrayLike,
    num_bins: int = 15,
    from_logits: bool = False,
) -> float:
    """Computes the mean gap between confidence and accuracy (ECE).

    Biased upwards: a calibrated predictor scores above 0, because the accuracy
    in a bin is that of finitely many predictions, and the more so, the more
    bins there are.

    Args:
        y_true: Class numbers, `[N]` or `[N, 1]`, or one-hot rows, `[N, C]`.
        probs: Probabilities (or logits) of each draw, `[S, N, C]`, or averaged
            probabilities, `[N, C]`.
        num_bins: Number of bins of equal width.
        from_logits: Whether `probs` holds logits.

    Returns:
        ece: `sum_k counts_k / N * |accuracy_k - confidence_k|`, in `[0, 1]`,
            float.

    Raises:
        ValueError: As for `calibration_bins`.

    Example:

    ```python
    tfp_refine.metrics.expected_calibration_error(
        [0, 1], [[0.9, 0.1], [0.6, 0.4]]
    )  # 0.35
    ```
    """
    bins = calibration_bins(y_true, probs, num_bins, from_logits)
    weights = bins.counts / np.sum(bins.counts)
    return float(np.nansum(weights * _gaps(bins)))


def maximum_calibration_error(
    y_true: npt.ArrayLike,
    probs: npt.ArrayLike,
    num_bins: int = 15,
    from_logits: bool = False,
) -> float:
    """Computes the greatest gap between confidence and accuracy (MCE).

    Every bin that is not empty counts in full, even with a single prediction.

    Args:
        y_true: Class numbers, `[N]` or `[N, 1]`, or one-hot rows, `[N, C]`.
        probs: Probabilities (or logits) of each draw, `[S, N, C]`, or averaged
            probabilities, `[N, C]`.
        num_bins: Number of bins of equal width.
        from_logits: Whether `probs` holds logits.

    Returns:
        mce: `max_k |accuracy_k - confidence_k|`, in `[0, 1]`, float.

    Raises:
        ValueError: As for `calibration_bins`.

    Example:

    ```python
    tfp_refine.metrics.maximum_calibration_error(
        [0, 1], [[0.9, 0.1], [0.6, 0.4]]
    )  # 0.6
    ```
    """
    bins = calibration_bins(y_true, probs, num_bins, from_logits)
    return float(np.nanmax(_gaps(bins)))


def _gaps(bins: CalibrationBins) -> np.ndarray:
    return np.abs(bins.accuracy - bins.confidence)
