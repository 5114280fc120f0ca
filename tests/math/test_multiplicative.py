import itertools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tests.support import statistics
from tfp_refine import bijectors
from tfp_refine.math import gaussian
from tfp_refine.math import multiplicative
from tfp_refine.math import planar_flow

tfd = tfp.distributions

NUM = 40_000
# E[f(z)] = sum(WEIGHTS * f(NODES)) for z ~ N(0, 1), exact for polynomials.
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(3)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
FINE_NODES, FINE_WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
FINE_WEIGHTS = FINE_WEIGHTS / FINE_WEIGHTS.sum()


def double(value):
    return tf.constant(value, tf.float64)


def draw_planar(rng, size):
    """Draws `u`, `w` and `b`."""
    return [double(rng.normal(size=shape)) for shape in (size, size, ())]


def conditional_kl(z, mu, s):
    """Computes `KL(q(W|z) || p(W))`, where `p` is standard normal."""
    q = gaussian.Gaussian(z[:, None] * mu, tf.sqrt(s))
    p = gaussian.Gaussian(double(0.0), double(1.0))
    return tf.reduce_sum(gaussian.kl_divergence(q, p))


# log q(z).


@pytest.mark.parametrize("size", [1, 4])
def test_expected_log_prob_has_the_mean_of_log_q(rng, size):
    loc, log_variance = double(rng.normal(size=(2, size)))
    flow = bijectors.Planar(*draw_planar(rng, size))
    base = tfd.MultivariateNormalDiag(loc, tf.exp(0.5 * log_variance))
    z0 = base.sample(NUM, seed=0)
    z = tf.identity(flow.forward(z0))
    exact = tfd.TransformedDistribution(base, flow).log_prob(z)
    found = multiplicative.expected_log_prob(
        log_variance, flow.forward_log_det_jacobian(z0)
    )
    # Their difference is half of a chi-square, centered.
    statistics.assert_mean(
        exact - found, 0.0, np.sqrt(size / 2.0), resolves=0.1, fpr=1e-6
    )
    assert np.var(found) < np.var(exact)


def test_expected_log_prob_is_a_scalar(rng):
    log_variance = double(rng.normal(size=3))
    found = multiplicative.expected_log_prob(log_variance, double(0.25))
    base = tfd.Normal(double(0.0), tf.exp(0.5 * log_variance))
    expected = -tf.reduce_sum(base.entropy()) - 0.25
    assert found.shape == ()
    np.testing.assert_allclose(found, expected, rtol=1e-13)


# log r(z|W).


@pytest.mark.parametrize("size", [1, 4])
def test_auxiliary_log_prob_is_a_normal_density(rng, size):
    base, loc, log_precision = double(rng.normal(size=(3, size)))
    found = multiplicative.auxiliary_log_prob(
        base, double(0.3), loc, log_precision
    )
    normal = tfd.Normal(loc, tf.exp(-0.5 * log_precision))
    expected = tf.reduce_sum(normal.log_prob(base)) + 0.3
    assert found.shape == ()
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("size", [1, 4])
def test_auxiliary_log_prob_is_that_of_the_transformed_distribution(rng, size):
    z, loc, log_precision = double(rng.normal(size=(3, size)))
    parameters = draw_planar(rng, size)
    base, log_det = planar_flow.forward(z, *parameters)
    found = multiplicative.auxiliary_log_prob(base, log_det, loc, log_precision)
    distribution = tfd.TransformedDistribution(
        tfd.MultivariateNormalDiag(loc, tf.exp(-0.5 * log_precision)),
        tfp.bijectors.Invert(bijectors.Planar(*parameters)),
    )
    np.testing.assert_allclose(found, distribution.log_prob(z), rtol=1e-10)


def test_auxiliary_log_prob_clips_the_log_precision():
    base, loc, zero = double([0.01]), double([0.0]), double(0.0)

    def log_prob(log_precision):
        return multiplicative.auxiliary_log_prob(base, zero, loc, log_precision)

    for sign in (-1.0, 1.0):
        limit = double([sign * 10.0])
        inside, outside = 0.999 * limit, 1.2 * limit
        assert log_prob(outside) == log_prob(limit)
        assert log_prob(inside) != log_prob(limit)
        for value, moves in ((inside, True), (outside, False)):
            _, gradient = tfp.math.value_and_gradient(log_prob, value)
            assert np.all(gradient != 0.0) == moves


# The statistic of the weights.


def draw_weights(rng, size=(3, 4)):
    """Draws `loc`, `variance` and `weights` of the statistic."""
    return [
        double(rng.normal(size=size)),
        double(rng.uniform(0.05, 1.0, size=size)),
        double(rng.normal(size=size[0])),
    ]


def moments(loc, variance, weights, linear):
    """Computes mean and variance of the statistic by quadrature."""
    scale = np.sqrt(weights**2 @ variance)
    products = weights @ loc + scale * FINE_NODES[:, None]
    values = products if linear else np.tanh(products)
    mean = FINE_WEIGHTS @ values
    variances = FINE_WEIGHTS @ (values - mean) ** 2
    return np.mean(mean), np.sum(variances) / len(mean) ** 2


@pytest.mark.parametrize("linear", [False, True])
def test_statistic_is_distributed_as_that_of_drawn_weights(rng, linear):
    parameters = draw_weights(rng)
    found = tf.vectorized_map(
        lambda noise: multiplicative.statistic(*parameters, noise, linear),
        double(rng.normal(size=(NUM, 4))),
    )
    loc, variance, weights = (value.numpy() for value in parameters)
    drawn = loc + np.sqrt(variance) * rng.normal(size=(NUM, 3, 4))
    products = np.einsum("d,sdm->sm", weights, drawn)
    drawn = np.mean(products if linear else np.tanh(products), axis=-1)

    mean, variance = moments(loc, variance, weights, linear)
    for draws in (found, drawn):
        scale = np.sqrt(variance)
        statistics.assert_mean(draws, mean, scale, resolves=0.1 * scale)
        statistics.assert_variance(draws, variance, resolves_ratio=1.1)


def test_linear_statistic_has_mean_and_variance_in_closed_form(rng):
    parameters = draw_weights(rng)

    def statistic(noise):
        return multiplicative.statistic(
            *parameters, double(noise), linear=True
        ).numpy()

    mean = statistic(np.zeros(4))
    loc, variance, weights = (value.numpy() for value in parameters)
    expected = np.mean(weights @ loc)
    np.testing.assert_allclose(mean, expected, rtol=1e-12)
    factors = [statistic(noise) - mean for noise in np.eye(4)]
    expected = np.sum(weights**2 @ variance) / 4**2
    np.testing.assert_allclose(np.sum(np.square(factors)), expected, rtol=1e-12)


@pytest.mark.parametrize("linear", [False, True])
def test_gradients_of_the_statistic_are_finite_at_zero(rng, linear):
    loc, variance, weights = (
        tf.cast(value, tf.float32) for value in draw_weights(rng)
    )
    noise = tf.constant(rng.normal(size=4), tf.float32)
    for inputs in (
        [loc, variance, 0.0 * weights],
        [loc, 0.0 * variance, weights],
    ):
        value, gradients = tfp.math.value_and_gradient(
            lambda *v: multiplicative.statistic(*v, noise, linear), inputs
        )
        assert value.dtype == tf.float32
        assert value.shape == ()
        for gradient in gradients:
            assert np.all(np.isfinite(gradient))


# The bound.


def bound_of_one_weight(m0, v0, mu, s, intercept, slope, log_precision):
    """Computes the bound where `r(z|W)` is `N(intercept + slope W, ...)`.

    The integrand is a polynomial in `z` and `W`, so that quadrature is exact.
    """
    log_q = multiplicative.expected_log_prob(double([np.log(v0)]), double(0.0))
    total = 0.0
    for (one, p), (other, q) in itertools.product(
        zip(NODES, WEIGHTS, strict=True), repeat=2
    ):
        z = double([m0 + np.sqrt(v0) * one])
        weight = multiplicative.statistic(
            z[:, None] * mu,
            double([[s]]),
            double([1.0]),
            double([other]),
            linear=True,
        )
        log_r = multiplicative.auxiliary_log_prob(
            z,
            double(0.0),
            double([intercept]) + slope * weight,
            double([log_precision]),
        )
        kl = conditional_kl(z, double([[mu]]), double(s))
        total += p * q * (kl + log_q - log_r)
    return total.numpy()


CASES = [
    {"m0": 1.2, "v0": 0.3, "mu": 0.8, "s": 0.1},
    {"m0": -0.4, "v0": 1.5, "mu": 2.0, "s": 0.5},
    {"m0": 1.0, "v0": 0.1, "mu": -0.3, "s": 1e-4},
]


def exact_auxiliary(m0, v0, mu, s):
    """Conditions `z` on `W`: `intercept`, `slope` and `log_precision`."""
    slope = v0 * mu / (s + v0 * mu**2)
    left = v0 - slope * mu * v0
    return {
        "intercept": m0 - slope * m0 * mu,
        "slope": slope,
        "log_precision": -np.log(left),
    }


def divergence_of_one_weight(m0, v0, mu, s):
    """Computes `KL(q(W) || p(W))`, where `z` is integrated out."""
    return tfd.kl_divergence(
        tfd.Normal(double(m0 * mu), np.sqrt(s + v0 * mu**2)),
        tfd.Normal(double(0.0), double(1.0)),
    )


@pytest.mark.parametrize("case", CASES)
def test_the_bound_is_tight_if_r_is_exact(case):
    np.testing.assert_allclose(
        bound_of_one_weight(**case, **exact_auxiliary(**case)),
        divergence_of_one_weight(**case),
        rtol=1e-9,
    )


@pytest.mark.parametrize("case", CASES[:2])
@pytest.mark.parametrize("name", ["intercept", "slope", "log_precision"])
@pytest.mark.parametrize("step", [-0.1, 0.1])
def test_any_other_r_makes_the_bound_looser(case, name, step):
    other = exact_auxiliary(**case)
    other[name] += step
    found = bound_of_one_weight(**case, **other)
    assert found > divergence_of_one_weight(**case) + 1e-4


def average(function, loc, log_variance):
    """Averages over `z0`, exactly so for quadratic functions of it."""
    size = len(loc)
    points = np.sqrt(size) * np.concatenate([np.eye(size), -np.eye(size)])
    scale = tf.exp(0.5 * log_variance)
    return np.mean([function(loc + scale * point) for point in points])


def test_the_bound_has_a_closed_form_if_r_ignores_the_weights(rng):
    m0, log_v0 = double(rng.normal(size=(2, 3)))
    mu = double(rng.normal(size=(3, 2)))
    s = double(rng.uniform(0.1, 1.0, size=(3, 2)))
    zero = double(0.0)

    def bound(z):
        log_q = multiplicative.expected_log_prob(log_v0, zero)
        log_r = multiplicative.auxiliary_log_prob(z, zero, m0, -log_v0)
        return conditional_kl(z, mu, s) + log_q - log_r

    squares = m0**2 + tf.exp(log_v0)
    expected = -tf.math.log(s) + s + squares[:, None] * mu**2 - 1.0
    np.testing.assert_allclose(
        average(bound, m0, log_v0), 0.5 * tf.reduce_sum(expected), rtol=1e-12
    )


def test_the_flow_of_r_may_undo_that_of_q(rng):
    m0, log_v0 = double(rng.normal(size=(2, 3)))
    parameters = draw_planar(rng, 3)

    def log_ratio(z0):
        z, log_det = planar_flow.forward(z0, *parameters)
        base = planar_flow.inverse(z, *parameters)
        log_q = multiplicative.expected_log_prob(log_v0, log_det)
        return log_q - multiplicative.auxiliary_log_prob(
            base, -log_det, m0, -log_v0
        )

    found = average(log_ratio, m0, log_v0)
    np.testing.assert_allclose(found, 0.0, atol=1e-12)


@pytest.mark.parametrize("keep", [0.2, 0.9])
def test_dropping_inputs_is_a_penalty_of_squares(rng, keep):
    # Gal's dropout: z is 0 or 1, and the variance a constant.
    mu, s = double(rng.normal(size=(1, 5))), double(1e-3)

    def expected_kl(mu):
        dropped, kept = (conditional_kl(double([z]), mu, s) for z in (0.0, 1.0))
        return (1.0 - keep) * dropped + keep * kept

    np.testing.assert_allclose(
        expected_kl(mu) - expected_kl(0.0 * mu),
        0.5 * keep * np.sum(np.square(mu)),
        rtol=1e-12,
    )
