"""Metrics of regressions whose predictions are mixtures of Gaussians."""

import numpy as np
import numpy.typing as npt
from keras import ops

from tfp_refine import _validation
from tfp_refine.math import gaussian_mixture
from tfp_refine.metrics import inputs

_LEVELS = np.linspace(0.05, 0.95, 19)


def predictive_cdf(
    y_true: npt.ArrayLike, loc: npt.ArrayLike, scale: npt.ArrayLike
) -> np.ndarray:
    """Computes the predicted probability of values up to the targets.

    Of a calibrated predictor these are uniform in `[0, 1]` (the probability
    integral transform).

    Args:
        y_true: Targets, `[N, D]`, or `[N]` if `D` is 1.
        loc: Mean of each draw, `[S, N, D]`, or of one Gaussian, `[N, D]`.
        scale: Standard deviation, positive, broadcastable to `loc`.

    Returns:
        cdf: Of the mixture of all draws, float64 array, `[N, D]`.

    Raises:
        ValueError: If shapes do not fit, `scale` is not positive, or values
            are not finite.

    Example:

    ```python
    tfp_refine.metrics.predictive_cdf([0.0], [[1.0]], 1.0)  # [[0.159]]
    ```
    """
    targets, draws = inputs.as_gaussian_draws(y_true, loc, scale)
    return ops.convert_to_numpy(gaussian_mixture.cdf(targets, draws))


def interval_coverage(
    y_true: npt.ArrayLike,
    loc: npt.ArrayLike,
    scale: npt.ArrayLike,
    level: float = 0.95,
) -> float:
    """Computes the fraction of targets in the central interval (PICP).

    The interval leaves out `(1 - level) / 2` of the predicted probability at
    either end.

    Args:
        y_true: As for `predictive_cdf`.
        loc: As for `predictive_cdf`.
        scale: As for `predictive_cdf`.
        level: Predicted probability of the interval, in (0, 1).

    Returns:
        coverage: Fraction of the targets, of all dimensions; `level` if the
            predictor is calibrated; float.

    Raises:
        ValueError: If `level` is not in (0, 1), or as for `predictive_cdf`.

    Example:

    ```python
    tfp_refine.metrics.interval_coverage([0.0, 3.0], [[0.0], [0.0]], 1.0)  # 0.5
    ```
    """
    _validation.proportion("level", level, one=False)
    cdf = predictive_cdf(y_true, loc, scale)
    return float(np.mean(np.abs(cdf - 0.5) <= 0.5 * level))


def regression_calibration_error(
    y_true: npt.ArrayLike,
    loc: npt.ArrayLike,
    scale: npt.ArrayLike,
    levels: npt.ArrayLike = _LEVELS,
) -> float:
    """Computes the error of the coverages of quantiles.

    Args:
        y_true: As for `predictive_cdf`.
        loc: As for `predictive_cdf`.
        scale: As for `predictive_cdf`.
        levels: Levels in (0, 1), `[K]`. Defaults to 0.05, 0.1, ..., 0.95.

    Returns:
        error: Mean over the levels of the squared difference of the level and
            the fraction of targets below its quantile, float.

    Raises:
        ValueError: If levels are not in (0, 1), or as for `predictive_cdf`.

    Example:

    ```python
    tfp_refine.metrics.regression_calibration_error(
        [-1.0, 0.0, 1.0], [[0.0], [0.0], [0.0]], 1.0
    )  # 0.0098
    ```

    Reference:
        - [Kuleshov et al., 2018](https://arxiv.org/abs/1807.00263), Eq. 9
    """
    levels = ops.convert_to_numpy(inputs.as_array("levels", levels))
    if levels.ndim != 1 or np.min(levels) <= 0.0 or np.max(levels) >= 1.0:
        raise ValueError(
            "`levels` must hold numbers between 0 and 1. "
            f"Received: shape {levels.shape}, values from "
            f"{np.min(levels):g} to {np.max(levels):g}"
        )
    cdf = predictive_cdf(y_true, loc, scale).ravel()
    below = np.mean(cdf[:, np.newaxis] <= levels, axis=0)
    return float(np.mean(np.square(below - levels)))


def crps(
    y_true: npt.ArrayLike,
    loc: npt.ArrayLike,
    scale: npt.ArrayLike | None = None,
) -> float:
    """Computes the mean continuous ranked probability score.

    The integral over `t` of the squared difference of the predicted
    distribution function and the step at the target. A proper score that needs
    no density: with `scale=None` draws are points.

    Args:
        y_true: As for `predictive_cdf`.
        loc: As for `predictive_cdf`.
        scale: As for `predictive_cdf`; `None` if `loc` holds draws of targets.

    Returns:
        crps: Mean over examples and dimensions, in the units of `y_true`; the
            mean absolute error of a single draw without a scale; float.

    Raises:
        ValueError: As for `predictive_cdf`.

    Example:

    ```python
    tfp_refine.metrics.crps([0.0], [[0.0]], 1.0)  # 0.234
    ```

    Reference:
        - [Gneiting and Raftery, 2007](https://doi.org/10.1198/016214506000001437)
    """
    if scale is not None:
        targets, draws = inputs.as_gaussian_draws(y_true, loc, scale)
        return float(ops.mean(gaussian_mixture.crps(targets, draws)))
    loc = inputs.as_draws("loc", loc)
    targets = inputs.as_targets(y_true, loc)
    draws = np.sort(ops.convert_to_numpy(loc), axis=0)
    count = len(draws)
    # Half the mean distance of two draws: of sorted ones, linear in each.
    weights = (2.0 * np.arange(1, count + 1) - count - 1.0) / count**2
    spread = np.tensordot(weights, draws, 1)
    error = np.mean(np.abs(draws - ops.convert_to_numpy(targets)), axis=0)
    return float(np.mean(error - spread))


def predictive_variance(
    loc: npt.ArrayLike, scale: npt.ArrayLike
) -> gaussian_mixture.Variance:
    """Splits the variance of predictions: aleatoric and epistemic.

    For classes, `predictive_entropy` is split likewise, into
    `expected_entropy` and `mutual_information`.

    Args:
        loc: As for `predictive_cdf`.
        scale: As for `predictive_cdf`.

    Returns:
        variance: `Variance` of float64 arrays `[N, D]`: `total`, which is the
            sum of `aleatoric`, the mean of the squared scales, and
            `epistemic`, the variance of the means.

    Raises:
        ValueError: As for `predictive_cdf`.

    Example:

    ```python
    loc = [[[-1.0]], [[1.0]]]  # two draws
    variance = tfp_refine.metrics.predictive_variance(loc, 0.5)
    variance.aleatoric  # [[0.25]]
    variance.epistemic  # [[1.0]]
    ```

    Reference:
        - [Depeweg et al., 2018](https://arxiv.org/abs/1710.07283)
    """
    some = inputs.as_draws("loc", loc)[0]
    _, draws = inputs.as_gaussian_draws(some, loc, scale)
    return gaussian_mixture.Variance(
        *map(ops.convert_to_numpy, gaussian_mixture.variance(draws))
    )
