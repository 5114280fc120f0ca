"""Moments of weights in the course of a training."""

import numpy as np

_MIN_VARIANCE = 1e-30


def moments(snapshots, rank):
    """Computes what SWAG keeps of a course.

    Args:
        snapshots: Weights, `[M, T, P]`.
        rank: `K`.

    Returns:
        mean: `[M, P]`.
        variance: Of each weight, `[M, P]`.
        deviations: Of the last snapshots from the means until then,
            `[M, K, P]`.
    """
    exact = snapshots.astype(np.float64)
    counts = np.arange(1, exact.shape[1] + 1)[:, np.newaxis]
    running = np.cumsum(exact, axis=1) / counts
    variance = np.maximum(np.var(exact, axis=1), _MIN_VARIANCE)
    deviations = (exact - running)[:, -rank:]
    return tuple(
        value.astype(snapshots.dtype)
        for value in (running[:, -1], variance, deviations)
    )
