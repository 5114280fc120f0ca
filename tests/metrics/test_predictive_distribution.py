import numpy as np
import pytest
import scipy.stats

from tfp_refine import metrics

S, N, D = 6, 400, 2


@pytest.fixture
def calibrated(rng):
    """Targets that are drawn from the predicted mixtures."""
    loc = rng.normal(size=(S, N, D))
    scale = rng.uniform(0.2, 2.0, size=(S, N, D))
    chosen = rng.integers(0, S, size=(1, N, D))
    y = np.take_along_axis(loc, chosen, 0) + np.take_along_axis(
        scale, chosen, 0
    ) * rng.normal(size=(1, N, D))
    return y[0], loc, scale


def test_cdfs_of_calibrated_predictions_are_uniform(calibrated):
    cdf = metrics.predictive_cdf(*calibrated)
    assert cdf.shape == (N, D)
    # False alarms: one in a million.
    assert scipy.stats.kstest(cdf.ravel(), "uniform").pvalue > 1e-6


@pytest.mark.parametrize("level", [0.1, 0.5, 0.95])
def test_intervals_hold_what_they_promise(calibrated, level):
    coverage = metrics.interval_coverage(*calibrated, level)
    count = round(coverage * N * D)
    assert scipy.stats.binomtest(count, N * D, level).pvalue > 1e-6


def test_an_interval_is_central():
    y = [[-1.97], [-1.95], [1.95], [1.97]]
    loc, scale = np.zeros((4, 1)), 1.0
    assert metrics.interval_coverage(y, loc, scale, 0.95) == 0.5
    assert metrics.interval_coverage(y, loc, scale, 0.999) == 1.0
    # Of the upper tail and of the lower one, as much is left out.
    for side in (-1.0, 1.0):
        y = side * np.array([[1.9], [1.99]])
        assert metrics.interval_coverage(y, np.zeros((2, 1)), 1.0) == 0.5


def test_regression_calibration_is_that_of_quantiles(calibrated):
    y, loc, scale = calibrated
    assert metrics.regression_calibration_error(y, loc, scale) < 0.003
    # All targets far above: no quantile has any below it.
    levels = np.linspace(0.05, 0.95, 19)
    np.testing.assert_allclose(
        metrics.regression_calibration_error(y + 1e3, loc, scale),
        np.mean(levels**2),
    )
    np.testing.assert_allclose(
        metrics.regression_calibration_error(y + 1e3, loc, scale, [0.3]), 0.09
    )


def test_crps_of_one_gaussian_is_the_known_formula(rng):
    y, loc = rng.normal(size=(2, 9, 1))
    scale = rng.uniform(0.5, 2.0, size=(9, 1))
    z = (y - loc) / scale
    expected = scale * (
        z * (2.0 * scipy.stats.norm.cdf(z) - 1.0)
        + 2.0 * scipy.stats.norm.pdf(z)
        - 1.0 / np.sqrt(np.pi)
    )
    np.testing.assert_allclose(metrics.crps(y, loc, scale), np.mean(expected))


def test_crps_of_draws_is_that_of_points(rng):
    draws, y = rng.normal(size=(7, 5, 2)), rng.normal(size=(5, 2))
    distances = np.abs(draws[:, np.newaxis] - draws)
    expected = np.mean(np.abs(draws - y)) - 0.5 * np.mean(distances)
    np.testing.assert_allclose(metrics.crps(y, draws), expected)
    np.testing.assert_allclose(metrics.crps(y, draws, 1e-9), expected)
    np.testing.assert_allclose(
        metrics.crps(y, draws[0]), np.mean(np.abs(draws[0] - y))
    )


def test_the_true_distribution_has_the_least_crps(calibrated):
    y, loc, scale = calibrated
    best = metrics.crps(y, loc, scale)
    assert best < metrics.crps(y, loc, 2.0 * scale)
    assert best < metrics.crps(y, loc + 1.0, scale)


def test_moments_of_one_draw_are_its_own(rng):
    y, loc = rng.normal(size=(2, 9, 3))
    scale = rng.uniform(0.5, 2.0, size=(9, 3))
    np.testing.assert_allclose(
        metrics.moment_matched_negative_log_likelihood(y, loc, scale),
        metrics.gaussian_negative_log_likelihood(y, loc, scale),
    )


def test_the_moment_matched_likelihood_is_of_one_gaussian(calibrated):
    y, loc, scale = calibrated
    mean = loc.mean(axis=0)
    variance = np.mean(scale**2 + loc**2, axis=0) - mean**2
    expected = -scipy.stats.norm.logpdf(y, mean, np.sqrt(variance))
    np.testing.assert_allclose(
        metrics.moment_matched_negative_log_likelihood(y, loc, scale),
        expected.sum(axis=-1).mean(),
    )


def test_the_variance_is_noise_and_ignorance(calibrated):
    _, loc, scale = calibrated
    variance = metrics.predictive_variance(loc, scale)
    np.testing.assert_allclose(variance.aleatoric, np.mean(scale**2, axis=0))
    np.testing.assert_allclose(variance.epistemic, np.var(loc, axis=0))
    np.testing.assert_allclose(
        variance.total, variance.aleatoric + variance.epistemic
    )
    assert variance.total.shape == (N, D)


@pytest.mark.parametrize(
    "function",
    [
        metrics.predictive_cdf,
        metrics.crps,
        metrics.moment_matched_negative_log_likelihood,
    ],
    ids=["cdf", "crps", "moments"],
)
def test_bad_predictions_are_refused(function):
    with pytest.raises(ValueError, match="`scale` must be positive"):
        function([[0.0]], [[0.0]], [[0.0]])
    with pytest.raises(ValueError, match="`y_true` must have shape"):
        function([[0.0]], [[0.0], [1.0]], 1.0)
    with pytest.raises(ValueError, match="`loc` must be finite"):
        function([[0.0]], [[np.nan]], 1.0)


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, "wide"])
def test_levels_are_between_0_and_1(level):
    with pytest.raises(ValueError, match="level"):
        metrics.interval_coverage([[0.0]], [[0.0]], 1.0, level)


@pytest.mark.parametrize("levels", [[0.0], [1.0], [[0.5]]])
def test_levels_of_quantiles_are_between_0_and_1(levels):
    with pytest.raises(ValueError, match="levels"):
        metrics.regression_calibration_error([[0.0]], [[0.0]], 1.0, levels)
