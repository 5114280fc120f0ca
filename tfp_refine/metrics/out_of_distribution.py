"""Metrics of scores that separate in-distribution examples from others."""

import numpy as np
import numpy.typing as npt
import sklearn.metrics
from keras import ops

from tfp_refine.metrics import inputs


def confidence(probs: npt.ArrayLike, from_logits: bool = False) -> np.ndarray:
    """Computes the probability of each predicted class, the usual score.

    Another is the negative of `predictive_entropy`.

    Args:
        probs: Probabilities (or logits) of each draw, `[S, N, C]`, or averaged
            probabilities, `[N, C]`.
        from_logits: Whether `probs` holds logits.

    Returns:
        confidence: `max_c mean_s p_sc`, in `[1 / C, 1]`, float64 array, `[N]`.

    Raises:
        ValueError: If there are fewer than 2 classes, values are not finite,
            or probabilities do not sum to 1.

    Example:

    ```python
    tfp_refine.metrics.confidence([[0.9, 0.1], [0.4, 0.6]])  # [0.9, 0.6]
    ```

    Reference:
        - [Hendrycks and Gimpel, 2017](https://arxiv.org/abs/1610.02136)
    """
    probs = inputs.as_averaged_probabilities("probs", probs, from_logits)
    return ops.convert_to_numpy(ops.max(probs, axis=-1))


def auroc(in_scores: npt.ArrayLike, out_scores: npt.ArrayLike) -> float:
    """Computes the area under the receiver operating characteristic.

    In-distribution examples are the positives, and should score higher.

    Args:
        in_scores: Scores of in-distribution examples, `[N]`.
        out_scores: Scores of out-of-distribution examples, `[M]`.

    Returns:
        auroc: Probability that a random in-distribution example scores higher
            than a random other one, where a tie counts a half. In `[0, 1]`,
            0.5 by chance, float.

    Raises:
        ValueError: If scores are not of rank 1, are empty or not finite.

    Example:

    ```python
    tfp_refine.metrics.auroc([0.9, 0.8], [0.3, 0.85])  # 0.75
    ```
    """
    positives = _as_scores("in_scores", in_scores)
    negatives = _as_scores("out_scores", out_scores)
    is_in = [1] * len(positives) + [0] * len(negatives)
    scores = np.concatenate([positives, negatives])
    return float(sklearn.metrics.roc_auc_score(is_in, scores))


def fpr_at_95_tpr(in_scores: npt.ArrayLike, out_scores: npt.ArrayLike) -> float:
    """Computes the false positive rate at a true positive rate of 95%.

    An example passes if it scores at least the threshold, and so all examples
    that tie with it pass. The threshold is the greatest that lets at least 95%
    of the in-distribution examples pass. It is one of their scores, the 5th
    percentile: nothing is interpolated, neither scores nor rates.

    Args:
        in_scores: Scores of in-distribution examples, `[N]`.
        out_scores: Scores of out-of-distribution examples, `[M]`.

    Returns:
        fpr: Fraction of out-of-distribution examples that pass. In `[0, 1]`,
            about 0.95 by chance, float.

    Raises:
        ValueError: If scores are not of rank 1, are empty or not finite.

    Example:

    ```python
    tfp_refine.metrics.fpr_at_95_tpr([0.9, 0.8], [0.3, 0.85])  # 0.5
    ```
    """
    positives = _as_scores("in_scores", in_scores)
    negatives = _as_scores("out_scores", out_scores)
    # At most 5% may fail, N // 20 of them: in whole numbers, not 0.95 * N.
    threshold = np.sort(positives)[len(positives) // 20]
    return float(np.mean(negatives >= threshold))


def _as_scores(name: str, value: npt.ArrayLike) -> np.ndarray:
    scores = ops.convert_to_numpy(inputs.as_array(name, value))
    if scores.ndim != 1:
        raise ValueError(
            f"`{name}` must have 1 axis, one score for each example. "
            f"Received: shape {scores.shape}"
        )
    return scores
