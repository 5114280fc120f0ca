"""Accuracy of the averaged predictive distribution."""

import numpy.typing as npt
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
    """
    probs = inputs.as_averaged_probabilities("probs", probs, from_logits)
    labels = inputs.as_labels(y_true, *probs.shape)
    predicted = ops.argmax(probs, axis=-1)
    hits = ops.cast(predicted, "int32") == labels
    return float(ops.mean(ops.cast(hits, "float64")))
