"""Errors of predictions that are averaged over draws."""

import numpy.typing as npt
import tensorflow as tf
from keras import ops

from tfp_refine.metrics import inputs


def accuracy(
    y_true: npt.ArrayLike, probs: npt.ArrayLike, from_logits: bool = False
) -> float:
    """Computes the fraction of examples whose most probable class is right.

    Probabilities are averaged over draws first; of equally probable classes
    the first counts.

    Args:
        y_true: Class numbers, `[N]` or `[N, 1]`, or one-hot rows, `[N, C]`.
        probs: Probabilities (or logits) of each draw, `[S, N, C]`, or averaged
            probabilities, `[N, C]`.
        from_logits: Whether `probs` holds logits.

    Returns:
        accuracy: In `[0, 1]`, float.

    Raises:
        ValueError: If shapes do not fit, labels are not in `[0, C)`, values
            are not finite, or probabilities do not sum to 1.

    Example:

    ```python
    tfp_refine.metrics.accuracy([0, 1], [[0.9, 0.1], [0.6, 0.4]])  # 0.5
    ```
    """
    probs = inputs.as_averaged_probabilities("probs", probs, from_logits)
    labels = inputs.as_labels(y_true, *probs.shape)
    predicted = ops.argmax(probs, axis=-1)
    hits = ops.cast(predicted, "int32") == labels
    return float(ops.mean(ops.cast(hits, "float64")))


def brier_score(
    y_true: npt.ArrayLike, probs: npt.ArrayLike, from_logits: bool = False
) -> float:
    """Computes the mean squared distance of probabilities from one-hot labels.

    Probabilities are averaged over draws first. The distance is summed over
    classes, as by Brier, not averaged.

    Args:
        y_true: Class numbers, `[N]` or `[N, 1]`, or one-hot rows, `[N, C]`.
        probs: Probabilities (or logits) of each draw, `[S, N, C]`, or averaged
            probabilities, `[N, C]`.
        from_logits: Whether `probs` holds logits.

    Returns:
        brier: `mean_n sum_c (p_nc - [y_n = c])**2`, from 0, sure and right, to
            2, sure and wrong, float.

    Raises:
        ValueError: If shapes do not fit, labels are not in `[0, C)`, values
            are not finite, or probabilities do not sum to 1.

    Example:

    ```python
    tfp_refine.metrics.brier_score([0, 1], [[0.9, 0.1], [0.6, 0.4]])  # 0.37
    ```
    """
    probs = inputs.as_averaged_probabilities("probs", probs, from_logits)
    labels = inputs.as_labels(y_true, *probs.shape)
    one_hot = ops.one_hot(labels, probs.shape[1], dtype="float64")
    distances = ops.sum(ops.square(probs - one_hot), axis=-1)  # [N]
    return float(ops.mean(distances))


def root_mean_squared_error(y_true: npt.ArrayLike, loc: npt.ArrayLike) -> float:
    """Computes the root mean squared error of the mean over draws.

    Args:
        y_true: Targets, `[N, D]`, or `[N]` if `D` is 1.
        loc: Predictions of each draw, `[S, N, D]`, or their mean, `[N, D]`.

    Returns:
        rmse: Square root of the mean over examples and dimensions, in the
            units of `y_true`, float.

    Raises:
        ValueError: If shapes do not fit or values are not finite.

    Example:

    ```python
    tfp_refine.metrics.root_mean_squared_error(
        [1.0, 3.0], [[1.0], [2.0]]
    )  # 0.707
    ```
    """
    draws = inputs.as_draws("loc", loc)
    targets = inputs.as_targets(y_true, draws)
    error = ops.mean(draws, axis=0) - targets
    # Of errors whose squares would overflow too.
    largest = ops.max(ops.abs(error))
    error = tf.math.divide_no_nan(error, largest)
    return float(largest * ops.sqrt(ops.mean(ops.square(error))))
