"""Entropies of class predictions in nats: total, aleatoric and epistemic."""

import numpy as np
import numpy.typing as npt
import scipy.special
import tensorflow as tf
from keras import ops

from tfp_refine.metrics import inputs


def predictive_entropy(
    probs: npt.ArrayLike, from_logits: bool = False
) -> np.ndarray:
    """Computes the entropy of each averaged predictive distribution.

    It is the total uncertainty, the sum of `expected_entropy` (aleatoric) and
    `mutual_information` (epistemic).

    Args:
        probs: Probabilities (or logits) of each draw, `[S, N, C]`, or averaged
            probabilities, `[N, C]`.
        from_logits: Whether `probs` holds logits.

    Returns:
        entropy: `H[mean_s p_s]`, nats, in `[0, log C]`, float64 array, `[N]`.

    Raises:
        ValueError: If there are fewer than 2 classes, values are not finite,
            or probabilities do not sum to 1.

    Example:

    ```python
    draws = [[[0.9, 0.1]], [[0.1, 0.9]]]  # two draws contradict each other
    tfp_refine.metrics.predictive_entropy(draws)  # [0.693]
    ```
    """
    probs = inputs.as_averaged_probabilities("probs", probs, from_logits)
    return _entropy(probs)


def expected_entropy(
    draws: npt.ArrayLike, from_logits: bool = False
) -> np.ndarray:
    """Computes the mean entropy of the draws' predictive distributions.

    It is the aleatoric uncertainty: the part that stays if the weights are
    known.

    Args:
        draws: Probabilities (or logits) of each draw, `[S, N, C]`. Averaged
            probabilities, `[N, C]`, are refused: they hold no draws.
        from_logits: Whether `draws` holds logits.

    Returns:
        entropy: `mean_s H[p_s]`, nats, in `[0, log C]`, float64 array, `[N]`.

    Raises:
        ValueError: If there is no axis of draws, there are fewer than 2
            classes, values are not finite, or probabilities do not sum to 1.

    Example:

    ```python
    draws = [[[0.9, 0.1]], [[0.1, 0.9]]]  # two draws contradict each other
    tfp_refine.metrics.expected_entropy(draws)  # [0.325]
    ```
    """
    probs = _draws_of_probabilities(draws, from_logits)
    return np.mean(_entropy(probs), axis=0)


def mutual_information(
    draws: npt.ArrayLike, from_logits: bool = False
) -> np.ndarray:
    """Computes the information on the weights that each label would give.

    It is the epistemic uncertainty: how far draws contradict each other.

    Args:
        draws: Probabilities (or logits) of each draw, `[S, N, C]`. Averaged
            probabilities, `[N, C]`, are refused: they hold no draws.
        from_logits: Whether `draws` holds logits.

    Returns:
        information: `H[mean_s p_s] - mean_s H[p_s]`, nats, in
            `[0, min(log C, log S)]`, float64 array, `[N]`. Rounding below 0 is
            clipped.

    Raises:
        ValueError: As for `expected_entropy`.

    Example:

    ```python
    draws = [[[0.9, 0.1]], [[0.1, 0.9]]]  # two draws contradict each other
    tfp_refine.metrics.mutual_information(draws)  # [0.368]
    ```

    Reference:
        - [Houlsby et al., 2011](https://arxiv.org/abs/1112.5745)
    """
    probs = _draws_of_probabilities(draws, from_logits)
    total = _entropy(ops.mean(probs, axis=0))
    return np.maximum(total - np.mean(_entropy(probs), axis=0), 0.0)


def _entropy(probs: tf.Tensor) -> np.ndarray:
    """Sums over classes, tensor [..., C] -> array [...]."""
    # entr(p) = -p * log(p), and 0 at p = 0. A sure float32 output may be
    # 1 + 1e-7, and would have a negative entropy.
    probs = np.minimum(ops.convert_to_numpy(probs), 1.0)
    return np.sum(scipy.special.entr(probs), axis=-1)


def _draws_of_probabilities(
    draws: npt.ArrayLike, from_logits: bool
) -> tf.Tensor:
    shape = tuple(inputs.as_array("draws", draws).shape)
    if len(shape) != 3:
        # Averaged probabilities would pass for a single draw, and give a
        # mutual information of 0.
        raise ValueError(
            "`draws` must have 3 axes, [S, N, C], draws first. "
            f"Received: shape {shape}"
        )
    return inputs.as_class_probabilities("draws", draws, from_logits)
