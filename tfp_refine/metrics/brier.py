"""Brier score of the averaged predictive distribution."""

import numpy.typing as npt
from keras import ops

from tfp_refine.metrics import inputs


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
    """
    probs = inputs.as_averaged_probabilities("probs", probs, from_logits)
    labels = inputs.as_labels(y_true, *probs.shape)
    one_hot = ops.one_hot(labels, probs.shape[1], dtype="float64")
    distances = ops.sum(ops.square(probs - one_hot), axis=-1)  # [N]
    return float(ops.mean(distances))
