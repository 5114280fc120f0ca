import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import tensorflow as tf

from tfp_refine.math import gaussian
from tfp_refine.math import gaussian_mixture


@pytest.fixture
def draws(rng):
    return gaussian.Gaussian(
        tf.constant(rng.normal(size=(4, 3))),
        tf.constant(rng.uniform(0.2, 2.0, size=(4, 3))),
    )


def distribution(draws, index):
    """Returns the CDF of one coordinate's mixture."""
    loc, scale = draws.loc[:, index].numpy(), draws.scale[:, index].numpy()
    return lambda x: np.mean(scipy.stats.norm.cdf(x, loc, scale))


def test_the_variance_is_that_of_draws_from_it(draws, rng):
    found = gaussian_mixture.variance(draws)
    samples = draws.loc + draws.scale * rng.normal(size=(100000, 4, 3))
    np.testing.assert_allclose(
        found.total, np.var(samples, axis=(0, 1)), rtol=0.02
    )
    np.testing.assert_allclose(found.total, found.aleatoric + found.epistemic)


def test_equal_components_know_all_but_the_noise(draws):
    same = gaussian.Gaussian(
        *(tf.repeat(part[:1], 5, axis=0) for part in draws)
    )
    found = gaussian_mixture.variance(same)
    np.testing.assert_allclose(found.epistemic, 0.0, atol=1e-15)
    np.testing.assert_allclose(found.aleatoric, draws.scale[0] ** 2)


def test_the_cdf_is_the_mean_of_the_components(draws):
    x = tf.constant([-1.0, 0.3, 30.0], tf.float64)
    expected = [distribution(draws, i)(x[i].numpy()) for i in range(3)]
    np.testing.assert_allclose(gaussian_mixture.cdf(x, draws), expected)


def test_crps_is_the_integral_of_squared_differences(draws):
    x = np.array([-1.0, 0.3, 3.0])
    found = gaussian_mixture.crps(tf.constant(x), draws)
    for index in range(3):
        cdf = distribution(draws, index)
        below, _ = scipy.integrate.quad(
            lambda t, cdf=cdf: cdf(t) ** 2, -20.0, x[index], limit=200
        )
        above, _ = scipy.integrate.quad(
            lambda t, cdf=cdf: (1.0 - cdf(t)) ** 2, x[index], 20.0, limit=200
        )
        np.testing.assert_allclose(found[index], below + above, rtol=1e-7)


def test_components_without_a_scale_are_points(draws):
    points = gaussian.Gaussian(draws.loc, tf.zeros_like(draws.scale))
    loc = draws.loc.numpy()
    expected = np.mean(np.abs(loc - 0.5), axis=0) - 0.5 * np.mean(
        np.abs(loc[:, np.newaxis] - loc), axis=(0, 1)
    )
    np.testing.assert_allclose(gaussian_mixture.crps(0.5, points), expected)


@pytest.mark.parametrize("unit", [1e-300, 1e-200, 1e200, 1e307])
def test_crps_has_the_unit_of_its_arguments(draws, unit):
    x = tf.constant([0.3, -1.0, 2.0], tf.float64)
    expected = gaussian_mixture.crps(x, draws)
    found = gaussian_mixture.crps(
        unit * x, gaussian.Gaussian(unit * draws.loc, unit * draws.scale)
    )
    np.testing.assert_allclose(found / unit, expected, rtol=1e-10)
