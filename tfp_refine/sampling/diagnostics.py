"""Diagnostics of Markov chains."""

from typing import Any

import numpy as np
import scipy.special
import scipy.stats

# Numbers that are compared at once: 128 MiB in float64.
_MAX_NUMBERS = 2**24
_MIN_SAMPLES = 4


def r_hat(samples: Any) -> np.ndarray:
    """Computes the split, rank-normalized R-hat of each quantity.

    The square root of the ratio of the variance estimated from all chains to
    that within chains: 1 if all have come to the same distribution. Each chain
    is split into halves, so a single chain is compared with itself; values are
    replaced by the normal quantiles of their ranks. The larger of two is
    returned: of the values, and of their distances from the median.

    Args:
        samples: `[T, chains, ...]`, 4 or more in each chain, in their order.

    Returns:
        r_hat: float64 array, `[...]`; NaN where all values are equal.

    Raises:
        ValueError: If there are too few samples.

    Example:

    ```python
    samples = np.random.default_rng(0).normal(size=(500, 4, 3))
    tfp_refine.sampling.r_hat(samples)  # near 1: mixed
    ```

    Reference:
        - [Vehtari et al., 2021](https://arxiv.org/abs/1903.08008), Section 4
    """
    return _by_quantity(_r_hat, samples)


def effective_sample_size(samples: Any) -> np.ndarray:
    """Computes the effective sample size for the mean of each quantity.

    The number of independent samples that estimate the mean equally well, for
    all chains together. Chains are split into halves; autocorrelations are
    summed as long as the sum of two successive ones is positive, and made to
    decrease.

    Args:
        samples: As for `r_hat`.

    Returns:
        size: float64 array, `[...]`, at most `log10(n)` times the number `n` of
            all samples; NaN where all values are equal.

    Raises:
        ValueError: If there are too few samples.

    Example:

    ```python
    samples = np.random.default_rng(0).normal(size=(500, 4, 3))
    tfp_refine.sampling.effective_sample_size(samples)  # about 2000 each
    ```

    Reference:
        - [Vehtari et al., 2021](https://arxiv.org/abs/1903.08008), Section 3.2
        - [Geyer, 1992](https://doi.org/10.1214/ss/1177011137)
    """
    return _by_quantity(_effective_sample_size, samples)


def _by_quantity(function, samples):
    """Applies a function of `[T, halves, Q]` to float64 halves of chains."""
    samples = np.asarray(samples)
    if samples.ndim < 2 or len(samples) < _MIN_SAMPLES:
        raise ValueError(
            f"`samples` must be [T, chains, ...], T {_MIN_SAMPLES} or more. "
            f"Received: shape {samples.shape}"
        )
    flat = samples.reshape(*samples.shape[:2], -1)
    half = len(flat) // 2
    size = max(1, _MAX_NUMBERS // (flat.shape[0] * flat.shape[1]))
    results = [np.zeros(0)]
    with np.errstate(divide="ignore", invalid="ignore"):
        for begin in range(0, flat.shape[2], size):
            part = flat[:, :, begin : begin + size].astype(np.float64)
            halves = np.concatenate([part[:half], part[-half:]], axis=1)
            results.append(function(halves))
    return np.concatenate(results).reshape(samples.shape[2:])


def _r_hat(halves):
    folded = np.abs(halves - np.median(halves, axis=(0, 1)))
    return np.maximum(*(_plain_r_hat(_normal(v)) for v in (halves, folded)))


def _plain_r_hat(chains):
    length = len(chains)
    between = np.var(np.mean(chains, axis=0), axis=0, ddof=1)
    within = np.mean(np.var(chains, axis=0, ddof=1), axis=0)
    return np.sqrt((length - 1) / length + between / within)


def _normal(values):
    """Replaces values by the normal quantiles of their ranks."""
    flat = values.reshape(-1, values.shape[-1])
    ranks = scipy.stats.rankdata(flat, axis=0)
    quantiles = scipy.special.ndtri((ranks - 0.375) / (len(flat) + 0.25))
    return quantiles.reshape(values.shape)


def _effective_sample_size(halves):
    length, count, _ = halves.shape
    total = length * count
    covariance = np.mean(_autocovariance(halves), axis=1)  # [T, Q]
    within = covariance[0] * length / (length - 1)
    variance = covariance[0]
    variance = variance + np.var(np.mean(halves, axis=0), axis=0, ddof=1)
    correlation = 1.0 - (within - covariance) / variance
    correlation[0] = 1.0
    pairs = correlation[: length // 2 * 2].reshape(length // 2, 2, -1)
    sums = pairs.sum(axis=1)
    # The last pairs are of too few values.
    sums[max(0, (length - 3) // 2) :] = -1.0
    kept = np.logical_and.accumulate(sums > 0.0, axis=0)
    falling = np.minimum.accumulate(sums, axis=0)
    time = 2.0 * np.sum(np.where(kept, falling, 0.0), axis=0) - 1.0
    # Of the first pair that is not kept, the first may still count.
    last = np.argmin(np.append(kept, np.zeros_like(kept[:1]), axis=0), axis=0)
    index = np.minimum(last, len(pairs) - 1)[np.newaxis]
    next_one = np.take_along_axis(pairs[:, 0], index, axis=0)[0]
    time += np.where(last < len(pairs), np.maximum(next_one, 0.0), 0.0)
    return np.where(
        variance > 0.0,
        total / np.maximum(time, 1.0 / np.log10(total)),
        np.nan,
    )


def _autocovariance(chains):
    """Computes autocovariances, divided by the length, `[T, chains, Q]`."""
    length = len(chains)
    centered = chains - np.mean(chains, axis=0)
    transformed = np.fft.rfft(centered, 2 * length, axis=0)
    power = np.square(transformed.real) + np.square(transformed.imag)
    return np.fft.irfft(power, 2 * length, axis=0)[:length] / length
