import math

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from scipy import integrate
from scipy import optimize
from scipy import special
from scipy import stats

from tfp_refine.math import collapsed
from tfp_refine.math import gaussian

tfd = tfp.distributions

# E[f(z)] = sum(WEIGHTS * f(NODES)) for z ~ N(0, 1), exact for polynomials.
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(4)
WEIGHTS = WEIGHTS / WEIGHTS.sum()

# loc, scale
POSTERIORS = [(0.0, 1.0), (0.7, 0.3), (-2.5, 0.05), (0.01, 4.0)]
ALPHAS = [0.05, 0.4, 0.95]
# shape, rate, delta
HYPERS = [(0.5, 0.01, 0.05), (3.0, 2.0, 0.4), (20.0, 0.3, 0.9)]


def make(loc, scale, dtype=tf.float64):
    return gaussian.Gaussian(tf.constant(loc, dtype), tf.constant(scale, dtype))


def expected_log_likelihood(loc, scale, mean, stddev):
    """Computes `E_q log N(w; mean, stddev**2)` by quadrature."""
    draws = np.expand_dims(
        loc + scale * NODES, tuple(range(1, np.ndim(mean) + 1))
    )
    return np.tensordot(WEIGHTS, stats.norm.logpdf(draws, mean, stddev), 1)


def extended_bound(loc, scale, prior_scale, alpha, q_mean):
    """Computes `KL(q(w) q(m) || p(w | m) p(m))`, whatever `q(m)` is."""
    gamma = prior_scale**2
    hyperprior = tfd.Normal(np.float64(0.0), math.sqrt(gamma / alpha - gamma))
    means = q_mean.loc + q_mean.scale * NODES
    divergences = tfd.kl_divergence(
        tfd.Normal(np.float64(loc), np.float64(scale)),
        tfd.Normal(means, np.float64(prior_scale)),
    )
    return np.sum(WEIGHTS * divergences) + tfd.kl_divergence(q_mean, hyperprior)


def descend(kl, start):
    """Minimises `kl(q)`, a function of the posterior alone."""

    def objective(values):
        loc, log_scale = tf.unstack(values)
        return kl(gaussian.Gaussian(loc, tf.exp(log_scale)))

    def value_and_gradient(values):
        found = tfp.math.value_and_gradient(objective, tf.constant(values))
        return [np.asarray(part) for part in found]

    result = optimize.minimize(
        value_and_gradient,
        start,
        jac=True,
        method="BFGS",
        options={"gtol": 1e-9},
    )
    return result.x[0], math.exp(2.0 * result.x[1]), result.fun


@pytest.mark.slow
@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize(("loc", "scale"), POSTERIORS)
def test_prior_mean_is_integrated_out(loc, scale, alpha):
    prior_scale = 0.6
    spread = prior_scale * math.sqrt(1.0 / alpha - 1.0)

    def log_joint(mean):
        return expected_log_likelihood(
            loc, scale, mean, prior_scale
        ) + stats.norm.logpdf(mean, 0.0, spread)

    # The integrand is in units of its value at `reference`: it cannot vanish.
    reference = log_joint(loc)
    integral, _ = integrate.quad(
        lambda mean: math.exp(log_joint(mean) - reference),
        min(loc, 0.0) - 12.0 * prior_scale,
        max(loc, 0.0) + 12.0 * prior_scale,
        epsabs=0.0,
        epsrel=1e-10,
    )
    expected = -math.log(integral) - reference - stats.norm.entropy(loc, scale)
    found = collapsed.collapsed_mean_kl(make(loc, scale), prior_scale, alpha)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize(("loc", "scale"), POSTERIORS)
def test_stated_posterior_of_the_mean_attains_the_collapsed_divergence(
    rng, loc, scale, alpha
):
    prior_scale = 0.6
    best = tfd.Normal(
        np.float64((1.0 - alpha) * loc), math.sqrt(1.0 - alpha) * prior_scale
    )
    expected = extended_bound(loc, scale, prior_scale, alpha, best)
    found = collapsed.collapsed_mean_kl(make(loc, scale), prior_scale, alpha)
    np.testing.assert_allclose(found, expected, rtol=1e-11)
    for _ in range(10):
        other = tfd.Normal(
            best.loc + 0.2 * rng.normal(), best.scale * rng.uniform(0.5, 2.0)
        )
        bound = extended_bound(loc, scale, prior_scale, alpha, other)
        assert bound > found + 1e-6


def test_means_fixed_at_zero_leave_the_divergence_of_gaussians(rng):
    q = make(rng.normal(size=20), rng.uniform(0.05, 3.0, size=20))
    found = collapsed.collapsed_mean_kl(q, 0.7, 1.0)
    np.testing.assert_array_equal(
        found, gaussian.kl_divergence(q, make(0.0, 0.7))
    )


def test_marginal_prior_is_nearer_by_the_cost_of_independence(rng):
    q = make(rng.normal(size=20), rng.uniform(0.05, 3.0, size=20))
    gamma, alpha = 0.49, 0.05
    marginal = tfd.Normal(np.float64(0.0), math.sqrt(gamma / alpha))
    gap = collapsed.collapsed_mean_kl(
        q, math.sqrt(gamma), alpha
    ) - tfd.kl_divergence(tfd.Normal(*q), marginal)
    expected = (1.0 - alpha) * np.square(q.scale) / (2.0 * gamma)
    np.testing.assert_allclose(gap, expected, rtol=1e-11)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_inferred_means_weaken_the_pull_on_locations_only(rng, alpha):
    q = make(rng.normal(size=20), rng.uniform(0.05, 3.0, size=20))

    def gradient(alpha_reg):
        return tfp.math.value_and_gradient(
            lambda *q: tf.reduce_sum(
                collapsed.collapsed_mean_kl(
                    gaussian.Gaussian(*q), 0.7, alpha_reg
                )
            ),
            list(q),
        )[1]

    d_loc, d_scale = gradient(alpha)
    np.testing.assert_allclose(d_loc, alpha * q.loc / 0.49, rtol=1e-12)
    np.testing.assert_array_equal(d_scale, gradient(1.0)[1])


@pytest.mark.parametrize("alpha", [*ALPHAS, 1.0])
def test_descent_on_the_mean_collapsed_divergence_ends_at_the_prior(alpha):
    loc, variance, least = descend(
        lambda q: collapsed.collapsed_mean_kl(q, 0.7, alpha), [1.5, -2.0]
    )
    np.testing.assert_allclose([loc, variance], [0.0, 0.49], atol=1e-7)
    np.testing.assert_allclose(least, -0.5 * math.log(alpha), atol=1e-12)


def test_alpha_reg_may_be_learnt():
    q = make([0.7, -1.2, 0.0], [0.3, 1.0, 2.0])

    def loss(alpha):
        return tf.reduce_sum(collapsed.collapsed_mean_kl(q, 0.7, alpha))

    alpha = tf.constant(0.3, tf.float64)
    step = 1e-5
    numerical = (loss(alpha + step) - loss(alpha - step)) / (2.0 * step)
    _, gradient = tfp.math.value_and_gradient(loss, alpha)
    np.testing.assert_allclose(gradient, numerical, rtol=1e-8)
    # At the best one, gamma / alpha is the mean of loc**2.
    best = 0.49 / np.mean(np.square(q.loc))
    _, gradient = tfp.math.value_and_gradient(loss, tf.constant(best))
    np.testing.assert_allclose(gradient, 0.0, atol=1e-12)


def test_prior_scale_may_be_learnt():
    q = make([0.7, -1.2, 0.0], [0.3, 1.0, 2.0])

    def loss(prior_scale):
        return tf.reduce_sum(collapsed.collapsed_mean_kl(q, prior_scale, 0.3))

    step = 1e-5
    numerical = (loss(0.8 + step) - loss(0.8 - step)) / (2.0 * step)
    _, gradient = tfp.math.value_and_gradient(
        loss, tf.constant(0.8, tf.float64)
    )
    np.testing.assert_allclose(gradient, numerical, rtol=1e-8)


def test_each_group_of_weights_may_have_its_own_alpha_reg(rng):
    q = make(rng.normal(size=(5, 2)), rng.uniform(0.05, 3.0, size=(5, 2)))
    alphas = tf.constant([0.1, 0.8], tf.float64)
    found = collapsed.collapsed_mean_kl(q, 0.7, alphas)
    for column, alpha in enumerate([0.1, 0.8]):
        one = gaussian.Gaussian(q.loc[:, column], q.scale[:, column])
        np.testing.assert_array_equal(
            found[:, column], collapsed.collapsed_mean_kl(one, 0.7, alpha)
        )


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "rate", "delta"), HYPERS)
@pytest.mark.parametrize(("loc", "scale"), POSTERIORS)
def test_prior_mean_and_precision_are_integrated_out(
    loc, scale, shape, rate, delta
):
    t = delta / (1.0 - delta)
    # Trapezoids on the whole line converge exponentially. Over log(tau), and
    # over the mean in units of 1 / sqrt(tau).
    log_tau = np.arange(-50.0 / (shape + 0.5), 6.0, 0.05)[:, None]
    log_tau = log_tau - math.log(rate)
    units = np.arange(-70.0, 70.0, 0.15)
    stddev = np.exp(-0.5 * log_tau)
    mean = units * stddev
    log_joint = (
        expected_log_likelihood(loc, scale, mean, stddev)
        + stats.norm.logpdf(mean, 0.0, stddev / math.sqrt(t))
        + stats.gamma.logpdf(np.exp(log_tau), shape, scale=1.0 / rate)
    )
    # The volume element is d(tau) d(mean).
    log_integral = special.logsumexp(log_joint + 0.5 * log_tau) + math.log(
        0.05 * 0.15
    )
    expected = -log_integral - stats.norm.entropy(loc, scale)
    found = collapsed.collapsed_mean_variance_kl(
        make(loc, scale), shape, rate, delta
    )
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("shape", "rate"), [(0.5, 0.01), (3.0, 2.0), (20.0, 0.3)]
)
@pytest.mark.parametrize(("loc", "scale"), POSTERIORS)
def test_at_delta_1_precisions_alone_are_integrated_out(
    loc, scale, shape, rate
):
    prior = stats.gamma(shape, scale=1.0 / rate)

    def integrand(log_tau):
        tau = math.exp(log_tau)
        return tau * math.exp(
            expected_log_likelihood(loc, scale, 0.0, tau**-0.5)
            + prior.logpdf(tau)
        )

    peak = math.log((shape + 0.5) / (rate + 0.5 * (loc**2 + scale**2)))
    integral, _ = integrate.quad(
        integrand,
        peak - 40.0 / (shape + 0.5),
        peak + 6.0,
        points=[peak],
        epsabs=0.0,
        epsrel=1e-10,
    )
    expected = -math.log(integral) - stats.norm.entropy(loc, scale)
    found = collapsed.collapsed_mean_variance_kl(
        make(loc, scale), shape, rate, 1.0
    )
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("delta", [0.05, 0.4, 1.0])
def test_sure_precisions_leave_the_means_to_be_inferred(delta):
    q = make(*np.transpose(POSTERIORS))
    limit = collapsed.collapsed_mean_kl(q, 0.7, delta)
    errors = [
        np.abs(
            collapsed.collapsed_mean_variance_kl(q, a, a * 0.49, delta) - limit
        )
        for a in (1e4, 1e5)
    ]
    assert np.all(errors[0] < 0.1)
    # Of the first order in 1 / a.
    np.testing.assert_allclose(errors[0] / errors[1], 10.0, rtol=0.05)


def test_sure_precisions_do_not_cancel_in_single_precision():
    posteriors = np.transpose([(0.3, 0.1), (-1.0, 1.0), (2.0, 0.5)])
    found = collapsed.collapsed_mean_variance_kl(
        make(*posteriors, tf.float32), 1e6, 0.49e6, 0.05
    )
    assert found.dtype == tf.float32
    expected = collapsed.collapsed_mean_kl(make(*posteriors), 0.7, 0.05)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=2e-6)


@pytest.mark.parametrize("delta", [0.05, 1.0])
@pytest.mark.parametrize(
    ("shape", "rate", "variance"),
    [(0.5, 0.01, 0.02), (4.0, 2.0, 0.5), (1.0, 0.3, 0.3)],
)
def test_descent_on_the_collapsed_divergence_ends_at_the_stated_minimum(
    shape, rate, variance, delta
):
    def kl(q):
        return collapsed.collapsed_mean_variance_kl(q, shape, rate, delta)

    loc, found, least = descend(kl, [0.3, -1.0])
    np.testing.assert_allclose([loc, found], [0.0, variance], atol=1e-7)
    np.testing.assert_allclose(
        least, kl(make(0.0, math.sqrt(variance))), atol=1e-12
    )
    assert least > 0.0


def test_collapsed_divergence_does_not_depend_on_units():
    q = make(*np.transpose(POSTERIORS))
    scaled = gaussian.Gaussian(1e-3 * q.loc, 1e-3 * q.scale)
    np.testing.assert_allclose(
        collapsed.collapsed_mean_variance_kl(scaled, 0.5, 0.01e-6, 0.05),
        collapsed.collapsed_mean_variance_kl(q, 0.5, 0.01, 0.05),
        rtol=1e-12,
    )
    np.testing.assert_allclose(
        collapsed.collapsed_mean_kl(scaled, 0.7e-3, 0.05),
        collapsed.collapsed_mean_kl(q, 0.7, 0.05),
        rtol=1e-12,
    )
