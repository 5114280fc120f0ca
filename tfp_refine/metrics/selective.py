"""Metrics of predictions that are refused where confidence is low."""

import numpy as np
import numpy.typing as npt
from keras import ops

from tfp_refine.metrics import inputs


def area_under_risk_coverage(
    y_true: npt.ArrayLike, probs: npt.ArrayLike, from_logits: bool = False
) -> float:
    """Computes the area under the risk-coverage curve (AURC).

    Predictions are kept in the order of their confidence; the risk at a
    coverage `k / N` is the error rate of the first `k`. Predictions that are
    equally confident are kept in a random order: the expectation over it is
    computed.

    Args:
        y_true: Class numbers, `[N]` or `[N, 1]`, or one-hot rows, `[N, C]`.
        probs: Probabilities (or logits) of each draw, `[S, N, C]`, or averaged
            probabilities, `[N, C]`.
        from_logits: Whether `probs` holds logits.

    Returns:
        aurc: Mean risk over all coverages, in `[0, 1]`, float; the error rate
            if confidence says nothing.

    Raises:
        ValueError: If shapes do not fit, labels are not in `[0, C)`, values
            are not finite, or probabilities do not sum to 1.

    Example:

    ```python
    tfp_refine.metrics.area_under_risk_coverage(
        [0, 1], [[0.9, 0.1], [0.6, 0.4]]
    )  # 0.25
    ```

    Reference:
        - [Geifman and El-Yaniv, 2017](https://arxiv.org/abs/1705.08500)
    """
    probs = inputs.as_averaged_probabilities("probs", probs, from_logits)
    labels = inputs.as_labels(y_true, *probs.shape)
    probs, labels = map(ops.convert_to_numpy, (probs, labels))
    errors = (np.argmax(probs, axis=-1) != labels).astype(np.float64)
    _, group = np.unique(-np.max(probs, axis=-1), return_inverse=True)
    rates = np.bincount(group, weights=errors) / np.bincount(group)
    expected = rates[np.sort(group)]
    risks = np.cumsum(expected) / np.arange(1, len(expected) + 1)
    return float(np.mean(risks))
