import math

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from scipy import integrate
from scipy import stats

from tfp_refine.math import gaussian
from tfp_refine.math import log_uniform


def make(loc, scale, dtype=tf.float64):
    return gaussian.Gaussian(tf.constant(loc, dtype), tf.constant(scale, dtype))


def at_ratio(log_noise_ratio, loc=100.0):
    """Makes posteriors whose variance is `exp(log_noise_ratio) loc**2`."""
    ratio = np.asarray(log_noise_ratio, dtype=np.float64)
    return make(np.full(ratio.shape, loc), abs(loc) * np.exp(0.5 * ratio))


def expected_log_magnitude(loc, scale):
    """Computes `E_q log|w|` by quadrature."""

    def integrand(w):
        # Not scipy's density, which is slow for one number at a time.
        density = math.exp(-0.5 * ((w - loc) / scale) ** 2) / scale
        return density * math.log(abs(w)) / math.sqrt(2.0 * math.pi)

    below, above = loc - 12.0 * scale, loc + 12.0 * scale
    pieces = [(below, loc), (loc, above)]
    if below < 0.0 < above:
        # Substituting w = +-u**2 tames the logarithm.
        def tame(u, sign):
            return 2.0 * u * integrand(sign * u * u) if u > 0.0 else 0.0

        return sum(
            integrate.quad(
                tame, 0.0, math.sqrt(abs(end)), (sign,), epsabs=1e-11, limit=200
            )[0]
            for sign, end in ((-1.0, below), (1.0, above))
        )
    return sum(integrate.quad(integrand, *piece)[0] for piece in pieces)


def exact_kl(loc, scale):
    """Computes `E_q[log q(w) + log|w|]`, less its value at `loc=0`."""
    return (
        expected_log_magnitude(loc, scale)
        - stats.norm.entropy(loc, scale)
        - expected_log_magnitude(0.0, 1.0)
        + stats.norm.entropy(0.0, 1.0)
    )


def test_kl_divergence_is_within_its_stated_error_of_quadrature():
    ratios = np.linspace(-8.0, 8.0, 129)
    exact = [exact_kl(1.0, math.exp(0.5 * ratio)) for ratio in ratios]
    error = log_uniform.kl_divergence(at_ratio(ratios)) - exact
    assert np.max(np.abs(error)) < 0.01
    # As much as the published constants leave, and no more.
    np.testing.assert_allclose(np.max(np.abs(error)), 0.0094, atol=5e-5)


def test_exact_divergence_of_all_noise_is_zero_in_all_units():
    for scale in (1e-3, 1.0, 50.0):
        np.testing.assert_allclose(exact_kl(0.0, scale), 0.0, atol=1e-9)


@pytest.mark.parametrize(
    ("log_noise_ratio", "expected", "tolerance"),
    [(0.0, 0.4312, 5e-5), (-8.0, 4.636, 5e-4), (8.0, 1.7e-4, 5e-6)],
)
def test_kl_divergence_takes_known_values(log_noise_ratio, expected, tolerance):
    found = log_uniform.kl_divergence(at_ratio(log_noise_ratio))
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=tolerance)


def test_kl_divergence_is_positive_and_falls_as_noise_grows():
    kl = log_uniform.kl_divergence(at_ratio(np.linspace(-8.0, 8.0, 2001)))
    assert np.all(kl > 0.0)
    assert np.all(np.diff(kl) < 0.0)


@pytest.mark.parametrize("limit", [-8.0, 8.0])
def test_kl_divergence_is_flat_beyond_the_fitted_range(limit):
    q = at_ratio(limit * np.array([0.99, 1.0001, 2.0, 5.0]))
    kl, gradients = tfp.math.value_and_gradient(
        lambda *q: log_uniform.kl_divergence(gaussian.Gaussian(*q)), list(q)
    )
    np.testing.assert_array_equal(kl[1:], [kl[1]] * 3)
    assert kl[0] != kl[1]
    for gradient in gradients:
        assert gradient[0] != 0.0
        np.testing.assert_array_equal(gradient[1:], [0.0] * 3)


@pytest.mark.parametrize("loc", [3.0, -0.2])
@pytest.mark.parametrize("scale", [0.05, 1.0, 40.0])
def test_log_noise_ratio_is_that_of_variance_to_squared_mean(loc, scale):
    found = log_uniform.log_noise_ratio(make(loc, scale))
    np.testing.assert_allclose(
        np.exp(found), scale**2 / loc**2, rtol=1e-6, atol=0.0
    )


@pytest.mark.parametrize("factor", [-1.0, 0.1, -30.0, 1e6])
def test_units_do_not_matter(factor):
    q = at_ratio(np.linspace(-10.0, 10.0, 21))
    other = gaussian.Gaussian(factor * q.loc, abs(factor) * q.scale)
    for function in (log_uniform.log_noise_ratio, log_uniform.kl_divergence):
        np.testing.assert_allclose(
            function(other), function(q), rtol=1e-9, atol=1e-9
        )


def test_floor_stands_in_for_a_mean_of_zero():
    ratio = log_uniform.log_noise_ratio(make([0.0, 1e-12], [1e-4, 1e-3]))
    np.testing.assert_allclose(ratio, [0.0, math.log(100.0)], atol=1e-12)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_gradient_is_finite_at_a_mean_of_zero(dtype):
    q = make([0.0, 0.0, 0.0], [1e-25, 1e-4, 1.0], dtype)
    kl, (d_loc, d_scale) = tfp.math.value_and_gradient(
        lambda *q: log_uniform.kl_divergence(gaussian.Gaussian(*q)), list(q)
    )
    assert kl.dtype == dtype
    assert np.all(np.isfinite(kl))
    assert np.all(np.isfinite(d_scale))
    assert d_scale[1] < 0.0
    np.testing.assert_array_equal(d_loc, [0.0] * 3)
