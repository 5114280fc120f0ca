"""Tests of random draws with a stated rate of false alarms.

Both checks run one test for each element and share the false-alarm rate `fpr`
among them (Bonferroni). Both refuse draws that are too few to see the error
that the caller wants seen, so that a passing test means something. Draws must
be independent; for a Markov chain, thin it to its effective sample size first.
"""

import functools
import math

import numpy as np
from scipy import stats


def assert_mean(draws, expected, stddev=None, *, resolves, fpr=1e-9, fnr=1e-9):
    """Asserts that random draws have an expected mean.

    Args:
        draws: Independent draws, `[S, ...]`.
        expected: Mean under the hypothesis, broadcast to `[...]`.
        stddev: Standard deviation of one draw, broadcast to `[...]`. By
            default that of the draws, and Student's t takes the place of the
            normal distribution.
        resolves: Least error of the mean that must be seen, in the units of
            the draws, broadcast to `[...]`.
        fpr: Probability that correct draws raise an alarm, all elements taken
            together.
        fnr: Probability that an element off by `resolves` goes unseen.

    Raises:
        AssertionError: If the mean of any element is too far off.
        ValueError: If shapes do not match, draws do not vary, or draws are too
            few to see an error of `resolves`.
    """
    draws = _as_draws(draws)
    num = len(draws)
    shape = draws.shape[1:]
    expected = _broadcast("expected", expected, shape)
    resolves = _broadcast("resolves", resolves, shape)
    if stddev is None:
        upper_quantile = functools.partial(stats.t.isf, df=num - 1)
        stddev = draws.std(axis=0, ddof=1)
    else:
        upper_quantile = stats.norm.isf
        stddev = _broadcast("stddev", stddev, shape)
    _check_positive(stddev=stddev, resolves=resolves)

    limit = upper_quantile(fpr / (2 * expected.size))
    visible = (limit + upper_quantile(fnr)) * stddev / math.sqrt(num)
    if np.any(visible > resolves):
        factor = np.max(visible / resolves) ** 2
        raise ValueError(
            f"{num} draws are too few to see `resolves`={np.min(resolves):.3g};"
            f" take about {math.ceil(num * factor)}."
        )
    mean = draws.mean(axis=0)
    z = (mean - expected) * math.sqrt(num) / stddev
    _raise_if_beyond("mean", mean, expected, z, -limit, limit)


def assert_variance(
    draws, expected, *, resolves_ratio, fpr=1e-9, fnr=1e-9, kurtosis=3.0
):
    """Asserts that near-Gaussian random draws have an expected variance.

    The sample variance is compared with the quantiles of a chi-square
    distribution. For other draws than Gaussian ones its degrees of freedom
    are those that give the sample variance its true variance, which depends on
    the `kurtosis`; with heavy tails, keep `fpr` moderate.

    Args:
        draws: Independent draws, `[S, ...]`.
        expected: Variance under the hypothesis, broadcast to `[...]`.
        resolves_ratio: Least factor, over 1, by which a variance that is too
            great or too small must be off to be seen.
        fpr: Probability that correct draws raise an alarm, all elements taken
            together.
        fnr: Probability that a variance off by `resolves_ratio` goes unseen.
        kurtosis: Fourth central moment of a draw over its squared variance:
            3 for Gaussian draws, 6 for Laplace, 1.8 for uniform ones.

    Raises:
        AssertionError: If the variance of any element is too far off.
        ValueError: If shapes do not match, or draws are too few to see a
            variance off by `resolves_ratio`.
    """
    draws = _as_draws(draws)
    num = len(draws)
    expected = _broadcast("expected", expected, draws.shape[1:])
    _check_positive(expected=expected)
    if resolves_ratio <= 1:
        raise ValueError(
            "`resolves_ratio` must exceed 1. Received: resolves_ratio="
            f"{resolves_ratio!r}"
        )
    # Var(s**2) / variance**2 = kurtosis / S - (S - 3) / (S * (S - 1)), and a
    # chi-square over its degrees of freedom has the variance 2 / degrees.
    degrees = 2 * num / (kurtosis - (num - 3) / (num - 1))
    tail = fpr / (2 * expected.size)
    low = stats.chi2.ppf(tail, degrees) / degrees
    high = stats.chi2.isf(tail, degrees) / degrees
    unseen = max(
        stats.chi2.cdf(high * degrees / resolves_ratio, degrees),
        stats.chi2.sf(low * degrees * resolves_ratio, degrees),
    )
    if unseen > fnr:
        raise ValueError(
            f"{num} draws are too few: they miss a variance off by the factor"
            f" {resolves_ratio} with probability {unseen:.2g}, above"
            f" `fnr`={fnr:.2g}."
        )
    variance = draws.var(axis=0, ddof=1)
    _raise_if_beyond(
        "variance", variance, expected, variance / expected, low, high
    )


def _as_draws(draws):
    draws = np.asarray(draws, dtype=np.float64)
    if draws.ndim == 0 or len(draws) < 2 or draws.size == 0:
        raise ValueError(
            "`draws` must have at least 2 draws along axis 0, of at least one"
            f" element. Received: shape {draws.shape}"
        )
    return draws


def _broadcast(name, value, shape):
    value = np.asarray(value, dtype=np.float64)
    try:
        return np.broadcast_to(value, shape)
    except ValueError:
        raise ValueError(
            f"`{name}` must broadcast to the shape of one draw, {shape}."
            f" Received: shape {value.shape}"
        ) from None


def _check_positive(**arrays):
    for name, array in arrays.items():
        # Not `array <= 0`, so that NaN is refused too.
        if not np.all(array > 0):
            raise ValueError(
                f"`{name}` must be positive. Received: {name}={array}"
            )


def _raise_if_beyond(what, found, expected, statistic, low, high):
    # Written so that NaN is an alarm.
    alarms = ~((low <= statistic) & (statistic <= high))
    if not np.any(alarms):
        return
    distance = np.where(np.isnan(statistic), np.inf, np.abs(statistic))
    worst = np.unravel_index(
        np.argmax(np.where(alarms, distance, -np.inf)), statistic.shape
    )
    index = tuple(int(i) for i in worst)
    raise AssertionError(
        f"The {what} is off in {np.sum(alarms)} of {alarms.size} elements. At"
        f" {index}: {found[worst]:.6g}, expected {expected[worst]:.6g};"
        f" statistic {statistic[worst]:.4g} outside [{low:.4g}, {high:.4g}]."
    )
