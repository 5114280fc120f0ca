"""Moments of weights in the course of a training."""

import numpy as np

from tfp_refine.posteriors import covariances

_MIN_VARIANCE = 1e-30


def moments(snapshots, rank):
    """Computes the Gaussian of SWAG.

    Args:
        snapshots: Weights, `[T, P]`.
        rank: `K`, 2 or more: the last snapshots, whose deviations from the
            means until then are half of the covariance.

    Returns:
        mean: `[P]`.
        covariance: `covariances.LowRank`; its diagonal is half of the variance
            of each weight.
    """
    exact = snapshots.astype(np.float64)
    counts = np.arange(1, len(exact) + 1)[:, np.newaxis]
    running = np.cumsum(exact, axis=0) / counts
    variance = np.maximum(np.var(exact, axis=0), _MIN_VARIANCE)
    deviations = (exact - running)[-rank:]
    mean, scale, factor = (
        value.astype(snapshots.dtype)
        for value in (
            running[-1],
            np.sqrt(0.5 * variance),
            deviations / np.sqrt(2.0 * (rank - 1.0)),
        )
    )
    return mean, covariances.LowRank(scale, factor)
