import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from scipy import stats

from tests.support.statistics import assert_mean
from tests.support.statistics import assert_variance
from tfp_refine.math import auxiliary
from tfp_refine.math import gaussian
from tfp_refine.math import variance_schedule

tfd = tfp.distributions

W = 30
RATIOS = [0.05, 0.3, 0.7, 0.95]
# E[f(z)] = sum(WEIGHTS * f(NODES)) for z ~ N(0, 1), exact for polynomials.
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(10)
NODES, WEIGHTS = NODES[:, None], WEIGHTS[:, None] / WEIGHTS.sum()


def make(loc, scale, dtype=tf.float64):
    return gaussian.Gaussian(tf.constant(loc, dtype), tf.constant(scale, dtype))


def average(values):
    """Averages over the `NODES`, which are the first axis."""
    return np.sum(WEIGHTS * values, axis=0)


@pytest.fixture
def q(rng):
    return make(rng.normal(size=W), rng.uniform(0.05, 1.5, size=W))


@pytest.fixture
def prior(rng):
    return make(rng.normal(size=W), rng.uniform(0.5, 2.0, size=W))


@pytest.fixture
def part(rng):
    """Values of the auxiliary part, also where it is not likely, `[W]`."""
    return tf.constant(rng.normal(0.0, 2.0, size=W))


def assert_same(found, expected, rtol=1e-10):
    for value, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=rtol, atol=rtol)


def kl_divergence(q, p):
    return tfd.kl_divergence(tfd.Normal(*q), tfd.Normal(*p)).numpy()


# Against Bayes' rule.


def regress(mean, cov, source, target):
    """Regresses one of two jointly Gaussian numbers on the other.

    Returns the slope, the intercept and the variance that is left.
    """
    slope = cov[source, target] / cov[source, source]
    left = cov[target, target] - slope * cov[source, target]
    return slope, mean[target] - slope * mean[source], left


def brute_force(q_loc, q_scale, prior_loc, prior_scale, ratio, part):
    """Conditions the joint Gaussians of `(w, a)`, for one weight.

    Returns `(mean, variance)` of `q(a)`, `q(w | a)`, `p(a)` and `p(w | a)`.
    """
    # w = a + c: the covariance of (w, a) under the prior.
    linear = np.array([[1.0, 1.0], [1.0, 0.0]])
    var = prior_scale**2 * np.array([ratio, 1.0 - ratio])  # of (a, c)
    mean = linear @ np.array([0.0, prior_loc])
    cov = linear @ np.diag(var) @ linear.T
    slope, intercept, left = regress(mean, cov, 0, 1)  # p(a | w)

    # q(w, a) = q(w) p(a | w)
    linear = np.array([[1.0, 0.0], [slope, 1.0]])
    q_mean = linear @ np.array([q_loc, intercept])
    q_cov = linear @ np.diag([q_scale**2, left]) @ linear.T

    def condition(mean, cov):
        slope, intercept, left = regress(mean, cov, 1, 0)
        return slope * part + intercept, left

    return (
        (q_mean[1], q_cov[1, 1]),
        condition(q_mean, q_cov),
        (mean[1], cov[1, 1]),
        condition(mean, cov),
    )


@pytest.mark.parametrize("ratio", RATIOS)
def test_all_four_are_those_of_the_joint_gaussian(q, prior, part, ratio):
    expected = [
        brute_force(*numbers, ratio, value)
        for *numbers, value in zip(*q, *prior, part.numpy(), strict=True)
    ]
    expected = np.moveaxis(np.array(expected), 0, -1)  # [4, 2, W]
    for found, (mean, var) in zip(
        (
            auxiliary.auxiliary_posterior(q, prior, ratio),
            auxiliary.posterior_given_auxiliary(q, prior, ratio, part),
            auxiliary.auxiliary_prior(prior, ratio),
            auxiliary.prior_given_auxiliary(prior, ratio, part),
        ),
        expected,
        strict=True,
    ):
        assert_same(found, (mean, np.sqrt(var)))


@pytest.mark.parametrize("ratio", [0.3, 0.7])
def test_densities_are_those_of_bayes_rule_on_a_grid(ratio):
    q, prior = make([0.4], [0.3]), make([-0.2], [0.9])
    part = tf.constant([0.5], tf.float64)
    w = np.linspace(-6.0, 6.0, 6001)

    def integrate(values):
        return np.sum(values) * (w[1] - w[0])

    var = prior.scale.numpy() ** 2
    p_part = stats.norm(0.0, np.sqrt(ratio * var)).pdf(part)
    p_rest = stats.norm(prior.loc, np.sqrt((1.0 - ratio) * var)).pdf(w - part)
    joint = p_part * p_rest  # p(w, a)
    q_joint = stats.norm(*q).pdf(w) * joint / stats.norm(*prior).pdf(w)
    q_part = integrate(q_joint)
    q_mean = integrate(w * q_joint) / q_part
    q_var = integrate((w - q_mean) ** 2 * q_joint) / q_part

    np.testing.assert_allclose(
        gaussian.log_prob(part, auxiliary.auxiliary_posterior(q, prior, ratio)),
        [np.log(q_part)],
        rtol=1e-9,
    )
    assert_same(
        auxiliary.posterior_given_auxiliary(q, prior, ratio, part),
        ([q_mean], [np.sqrt(q_var)]),
    )
    np.testing.assert_allclose(
        gaussian.log_prob(
            tf.constant(w), auxiliary.prior_given_auxiliary(prior, ratio, part)
        ),
        np.log(joint / integrate(joint)),
        rtol=1e-9,
        atol=1e-9,
    )
    np.testing.assert_allclose(
        auxiliary.log_density_ratio(q, prior, ratio, part),
        np.log(q_part / p_part),
        rtol=1e-9,
    )


@pytest.mark.parametrize("ratio", RATIOS)
def test_log_density_ratio_is_the_difference_of_the_log_densities(
    q, prior, part, ratio
):
    q_part = auxiliary.auxiliary_posterior(q, prior, ratio)
    p_part = auxiliary.auxiliary_prior(prior, ratio)
    expected = tfd.Normal(*q_part).log_prob(part)
    expected -= tfd.Normal(*p_part).log_prob(part)
    np.testing.assert_allclose(
        auxiliary.log_density_ratio(q, prior, ratio, part),
        expected,
        rtol=1e-10,
        atol=1e-12,
    )


# Limits.


def test_a_vanishing_part_says_nothing(q, prior):
    ratio = 1e-14
    part = auxiliary.auxiliary_prior(prior, ratio).scale
    np.testing.assert_array_less(part, 3e-7)
    given = auxiliary.posterior_given_auxiliary(q, prior, ratio, part)
    assert_same(given, q, rtol=3e-6)
    assert_same(
        auxiliary.prior_given_auxiliary(prior, ratio, part), prior, rtol=1e-6
    )


def test_a_part_that_is_all_determines_the_weight(q, prior, part):
    ratio = 1.0 - 1e-13
    given = auxiliary.posterior_given_auxiliary(q, prior, ratio, part)
    np.testing.assert_allclose(given.loc, prior.loc + part, atol=1e-8)
    # Nothing is left but the rest, which q and the prior agree upon.
    expected = auxiliary.prior_given_auxiliary(prior, ratio, part).scale
    np.testing.assert_array_less(expected, 1e-6)
    np.testing.assert_allclose(given.scale, expected, rtol=1e-8)


@pytest.mark.parametrize("ratio", RATIOS)
def test_posterior_that_equals_the_prior_stays_so_and_costs_nothing(
    prior, part, ratio
):
    assert_same(
        auxiliary.auxiliary_posterior(prior, prior, ratio),
        auxiliary.auxiliary_prior(prior, ratio),
        rtol=1e-14,
    )
    assert_same(
        auxiliary.posterior_given_auxiliary(prior, prior, ratio, part),
        auxiliary.prior_given_auxiliary(prior, ratio, part),
        rtol=1e-14,
    )
    cost = auxiliary.log_density_ratio(prior, prior, ratio, part)
    # Rounding of part**2 / ratio.
    np.testing.assert_allclose(cost, 0.0, atol=1e-12)


@pytest.mark.parametrize("scale", [0.0, 1e-150])
@pytest.mark.parametrize("ratio", RATIOS)
def test_a_point_mass_stays_where_it_is(q, prior, part, ratio, scale):
    q = q._replace(scale=tf.fill([W], tf.constant(scale, tf.float64)))
    given = auxiliary.posterior_given_auxiliary(q, prior, ratio, part)
    np.testing.assert_array_equal(given.loc, q.loc)
    np.testing.assert_allclose(given.scale, scale, rtol=1e-12)
    # With w known, a is as uncertain as p(a | w).
    np.testing.assert_allclose(
        auxiliary.auxiliary_posterior(q, prior, ratio).scale,
        np.sqrt(ratio * (1.0 - ratio)) * prior.scale,
        rtol=1e-12,
    )
    cost = auxiliary.log_density_ratio(q, prior, ratio, part)
    assert np.all(np.isfinite(cost))


# Averages over the auxiliary part.


@pytest.mark.parametrize("ratio", RATIOS)
def test_conditionals_average_to_the_posterior_and_to_the_prior(
    q, prior, ratio
):
    q_part = auxiliary.auxiliary_posterior(q, prior, ratio)
    q_values = q_part.loc + q_part.scale * NODES
    p_part = auxiliary.auxiliary_prior(prior, ratio)
    p_values = p_part.loc + p_part.scale * NODES
    for given, expected in (
        (auxiliary.posterior_given_auxiliary(q, prior, ratio, q_values), q),
        (auxiliary.prior_given_auxiliary(prior, ratio, p_values), prior),
    ):
        mean = average(given.loc)
        var = average((given.loc - mean) ** 2 + given.scale**2)
        assert_same((mean, np.sqrt(var)), expected)


@pytest.mark.parametrize("ratio", RATIOS)
def test_expected_cost_is_the_divergence_of_the_part(q, prior, ratio):
    q_part = auxiliary.auxiliary_posterior(q, prior, ratio)
    part = q_part.loc + q_part.scale * NODES
    cost = auxiliary.log_density_ratio(q, prior, ratio, part)
    p_part = auxiliary.auxiliary_prior(prior, ratio)
    np.testing.assert_allclose(
        average(cost),
        kl_divergence(q_part, p_part),
        rtol=1e-9,
        atol=1e-12,
    )


@pytest.mark.parametrize("ratio", RATIOS)
def test_divergence_is_that_of_the_part_and_of_the_conditionals(
    q, prior, ratio
):
    q_part = auxiliary.auxiliary_posterior(q, prior, ratio)
    part = q_part.loc + q_part.scale * NODES
    of_conditionals = kl_divergence(
        auxiliary.posterior_given_auxiliary(q, prior, ratio, part),
        auxiliary.prior_given_auxiliary(prior, ratio, part),
    )
    of_part = kl_divergence(q_part, auxiliary.auxiliary_prior(prior, ratio))
    np.testing.assert_allclose(
        average(of_conditionals) + of_part,
        kl_divergence(q, prior),
        rtol=1e-9,
        atol=1e-12,
    )


def run_chain(q, prior, ratios, noises):
    """Conditions on one part after the other.

    Returns the last `q(w | a)` and `p(w | a)`, the summed cost and the parts.
    """
    cost, parts = 0.0, []
    for ratio, noise in zip(ratios, noises, strict=True):
        q_part = auxiliary.auxiliary_posterior(q, prior, ratio)
        part = q_part.loc + q_part.scale * noise
        cost += auxiliary.log_density_ratio(q, prior, ratio, part)
        q, prior = (
            auxiliary.posterior_given_auxiliary(q, prior, ratio, part),
            auxiliary.prior_given_auxiliary(prior, ratio, part),
        )
        parts.append(part)
    return q, prior, cost, parts


CHAIN = [0.7, 0.4, 0.6, 0.7]
CHAIN_Q = ([0.8, -0.5, -0.4], [0.6, 0.2, 1.3])
CHAIN_PRIOR = ([0.0, 0.3, 0.5], [1.0, 0.8, 1.1])


def test_a_chain_of_four_parts_restores_the_posterior(rng):
    q, prior = make(*CHAIN_Q), make(*CHAIN_PRIOR)
    noises = rng.normal(size=(5, 40_000, 3))
    last, *_ = run_chain(q, prior, CHAIN, noises[:4])
    draws = last.loc + last.scale * noises[4]
    # The draws are Gaussian; both checks alarm falsely once in 1e9 runs.
    resolves = 0.1 * q.scale.numpy()
    assert_mean(draws, q.loc, q.scale, resolves=resolves, fpr=1e-9)
    assert_variance(draws, q.scale**2, resolves_ratio=1.15, fpr=1e-9)


def test_a_chain_of_four_parts_costs_the_divergence_on_average(rng):
    q, prior = make(*CHAIN_Q), make(*CHAIN_PRIOR)
    noises = rng.normal(size=(4, 40_000, 3))
    last, last_prior, cost, _ = run_chain(q, prior, CHAIN, noises)
    draws = cost + kl_divergence(last, last_prior)
    # Alarms falsely once in 1e9 runs.
    expected = kl_divergence(q, prior)
    assert_mean(draws, expected, resolves=0.1, fpr=1e-9)
    # It would see a cost that is left out.
    assert np.all(np.abs(np.mean(cost, axis=0)) > 0.1)


def test_parts_of_the_prior_have_the_fractions_of_its_variance(rng):
    prior = make([0.4], [2.0])
    noises = rng.normal(size=(5, 40_000, 1))
    last, _, _, parts = run_chain(prior, prior, CHAIN, noises[:4])
    rest = last.loc + last.scale * noises[4] - sum(parts)
    fractions = variance_schedule.fractions_from_ratios(CHAIN)
    expected = 4.0 * np.array([*fractions, 1.0 - sum(fractions)])
    draws = np.stack([*parts, rest], axis=1)[..., 0]
    # Gaussian draws; alarms falsely once in 1e9 runs.
    assert_variance(draws, expected, resolves_ratio=1.15, fpr=1e-9)
    means = [0.0, 0.0, 0.0, 0.0, 0.4]
    stddev = np.sqrt(expected)
    assert_mean(draws, means, stddev, resolves=0.1 * stddev, fpr=1e-9)


# Shapes and types.


def test_prior_scale_of_one_number_stays_one_number(q, part):
    prior = make(np.zeros(W), 0.8)
    spread = prior._replace(scale=tf.fill([W], prior.scale))
    given = auxiliary.prior_given_auxiliary(prior, 0.7, part)
    assert given.loc.shape == [W]
    assert given.scale.shape == []
    assert_same(
        auxiliary.posterior_given_auxiliary(q, prior, 0.7, part),
        auxiliary.posterior_given_auxiliary(q, spread, 0.7, part),
        rtol=1e-15,
    )
    np.testing.assert_array_equal(
        auxiliary.log_density_ratio(q, prior, 0.7, part),
        auxiliary.log_density_ratio(q, spread, 0.7, part),
    )


def test_ratio_may_be_a_tensor(q, prior, part):
    ratio = tf.constant(0.7, tf.float64)
    assert_same(
        auxiliary.posterior_given_auxiliary(q, prior, ratio, part),
        auxiliary.posterior_given_auxiliary(q, prior, 0.7, part),
    )
