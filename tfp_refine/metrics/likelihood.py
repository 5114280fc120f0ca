"""Negative log-likelihood of the averaged predictive distribution, in nats."""

import math

import numpy.typing as npt
import tensorflow as tf
from keras import ops

from tfp_refine.math import gaussian
from tfp_refine.math import gaussian_mixture
from tfp_refine.metrics import inputs


def negative_log_likelihood(
    y_true: npt.ArrayLike, draws: npt.ArrayLike, from_logits: bool = False
) -> float:
    """Computes the mean negative log-likelihood of class labels.

    Probabilities are averaged over draws, `p = mean_s p_s`; neither logits
    nor log-probabilities ever are.

    Args:
        y_true: Class numbers, `[N]` or `[N, 1]`, or one-hot rows, `[N, C]`.
        draws: Probabilities (or logits) of each draw, `[S, N, C]`, or averaged
            probabilities, `[N, C]`.
        from_logits: Whether `draws` holds logits.

    Returns:
        nll: `-mean_n log(mean_s p_s(y_n))`, nats per example, float. Infinite
            if all draws give some label the probability 0 (no clipping);
            logits never underflow to that.

    Raises:
        ValueError: If shapes do not fit, labels are not in `[0, C)`, values
            are not finite, or probabilities do not sum to 1.

    Example:

    ```python
    tfp_refine.metrics.negative_log_likelihood(
        [0, 1], [[0.9, 0.1], [0.6, 0.4]]
    )  # 0.511
    ```
    """
    draws = inputs.as_class_draws("draws", draws, from_logits)
    labels = inputs.as_labels(y_true, draws.shape[1], draws.shape[2])
    values = ops.log_softmax(draws) if from_logits else draws
    index = ops.reshape(labels, (1, -1, 1))
    values = ops.take_along_axis(values, index, axis=-1)[..., 0]  # [S, N]
    log_probs = values if from_logits else ops.log(values)
    return float(-ops.mean(_log_mean_exp(log_probs)))


def gaussian_negative_log_likelihood(
    y_true: npt.ArrayLike, loc: npt.ArrayLike, scale: npt.ArrayLike
) -> float:
    """Computes the mean negative log-likelihood of a mixture of Gaussians.

    Each draw is a Gaussian with independent coordinates; the predictive
    distribution is their mixture with equal weights.

    Args:
        y_true: Targets, `[N, D]`, or `[N]` if `D` is 1.
        loc: Mean of each draw, `[S, N, D]`, or of one Gaussian, `[N, D]`.
        scale: Standard deviation, positive, broadcastable to `loc`.

    Returns:
        nll: `-mean_n log(mean_s prod_d N(y_nd; loc_snd, scale_snd**2))`, nats
            per example in the units of `y_true`, float.

    Raises:
        ValueError: If shapes do not fit, `scale` is not positive, or values
            are not finite.

    Example:

    ```python
    loc = [[[-1.0]], [[1.0]]]  # two draws
    tfp_refine.metrics.gaussian_negative_log_likelihood(
        [0.0], loc, 1.0
    )  # 1.419
    ```
    """
    targets, draws = inputs.as_gaussian_draws(y_true, loc, scale)
    log_probs = gaussian.log_prob(targets, draws)  # [S, N, D]
    return float(-ops.mean(_log_mean_exp(ops.sum(log_probs, axis=-1))))


def moment_matched_negative_log_likelihood(
    y_true: npt.ArrayLike, loc: npt.ArrayLike, scale: npt.ArrayLike
) -> float:
    """Computes the mean negative log-likelihood of one Gaussian for all draws.

    It has the mean and the variance of their mixture, whose own likelihood is
    `gaussian_negative_log_likelihood`.

    Args:
        y_true: As there.
        loc: As there.
        scale: As there.

    Returns:
        nll: Nats per example in the units of `y_true`, float.

    Raises:
        ValueError: As there.

    Example:

    ```python
    loc = [[[-1.0]], [[1.0]]]  # two draws
    tfp_refine.metrics.moment_matched_negative_log_likelihood(
        [0.0], loc, 1.0
    )  # 1.266
    ```

    Reference:
        - [Lakshminarayanan et al., 2017](https://arxiv.org/abs/1612.01474),
          section 2.4
    """
    targets, draws = inputs.as_gaussian_draws(y_true, loc, scale)
    mean = ops.mean(draws.loc, axis=0)
    variance = gaussian_mixture.variance(draws).total
    log_probs = gaussian.log_prob(
        targets, gaussian.Gaussian(mean, ops.sqrt(variance))
    )  # [N, D]
    return float(-ops.mean(ops.sum(log_probs, axis=-1)))


def _log_mean_exp(log_values: tf.Tensor) -> tf.Tensor:
    """Averages over draws, [S, N] -> [N]."""
    return ops.logsumexp(log_values, axis=0) - math.log(log_values.shape[0])
