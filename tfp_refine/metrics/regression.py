"""Errors of the mean of the predictive distribution."""

import numpy.typing as npt
from keras import ops

from tfp_refine.metrics import inputs


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
    """
    draws = inputs.as_draws("loc", loc)
    targets = inputs.as_targets(y_true, draws)
    error = ops.mean(draws, axis=0) - targets
    return float(ops.sqrt(ops.mean(ops.square(error))))
