"""Identities and bounds of the formulas, far from ordinary values too."""

import math

import hypothesis
import numpy as np
import scipy.stats
import tensorflow as tf
from hypothesis import strategies as st

from tests.properties import budget
from tfp_refine.math import auxiliary
from tfp_refine.math import collapsed
from tfp_refine.math import dirichlet
from tfp_refine.math import gaussian
from tfp_refine.math import laplace_evidence
from tfp_refine.math import linear_regression
from tfp_refine.math import log_uniform
from tfp_refine.math import logistic_normal
from tfp_refine.math import low_rank
from tfp_refine.math import scale_mixture
from tfp_refine.math import softplus
from tfp_refine.math import variance_schedule

# Of either sign, and of any order of magnitude.
_NUMBERS = st.one_of(
    st.floats(-10.0, 10.0), st.floats(-1e6, 1e6), st.floats(-1e-6, 1e-6)
)
_LOG_SCALES = st.floats(-8.0, 8.0)
_SCALES = _LOG_SCALES.map(lambda x: 10.0**x)
_RATIOS = st.one_of(st.floats(1e-6, 1.0 - 1e-6), st.floats(0.1, 0.9))


def _tensor(value):
    return tf.constant(value, tf.float64)


@st.composite
def _gaussians(draw, scales=_SCALES):
    return gaussian.Gaussian(_tensor(draw(_NUMBERS)), _tensor(draw(scales)))


any_gaussian = hypothesis.given(_gaussians())
any_two = hypothesis.given(_gaussians(), _gaussians())


@budget.cases(20)
@any_two
def test_divergences_are_not_negative_and_zero_of_equals(q, p):
    kl = float(gaussian.kl_divergence(q, p))
    # The terms cancel to rounding of the largest.
    assert kl >= -1e-14 * abs(math.log(q.scale / p.scale)) - 1e-15
    assert math.isfinite(kl)
    assert float(gaussian.kl_divergence(q, q)) == 0.0


@budget.cases(20)
@any_two
def test_the_gradient_of_the_divergence_is_that_of_its_terms(q, p):
    terms = (*q, *p)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(terms)
        kl = gaussian.kl_divergence(q, p)
        variance = tf.square(q.scale) + tf.square(q.loc - p.loc)
        plain = (
            tf.math.log(p.scale)
            - tf.math.log(q.scale)
            + 0.5 * variance / tf.square(p.scale)
        )
    found, expected = tape.gradient(kl, terms), tape.gradient(plain, terms)
    # Of the size of the terms that cancel.
    terms = float(1.0 / q.scale + 1.0 / p.scale)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12 * terms)


@budget.cases(15)
@hypothesis.given(_NUMBERS, _gaussians())
def test_log_densities_are_those_of_scipy(x, p):
    found = float(gaussian.log_prob(_tensor(x), p))
    expected = scipy.stats.norm.logpdf(x, float(p.loc), float(p.scale))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@budget.cases(20)
@hypothesis.given(st.floats(1e-3, 1e4), st.floats(1e-3, 1e4))
def test_the_inverse_of_softplus_inverts_and_is_monotone(one, other):
    low, high = sorted((one, other))
    raw = softplus.inverse(_tensor([low, high]))
    np.testing.assert_allclose(tf.nn.softplus(raw), [low, high], rtol=1e-12)
    assert raw[0] <= raw[1]
    assert (raw[0] < raw[1]) == (low < high)
    floats = [softplus.inverse_of_float(scale) for scale in (low, high)]
    np.testing.assert_allclose(raw, floats, rtol=1e-9, atol=1e-11)


@budget.cases(10)
@hypothesis.given(st.floats(0.0, 1e300))
def test_the_inverse_of_softplus_is_finite_for_every_scale(scale):
    raw = float(softplus.inverse(_tensor(scale)))
    assert math.isfinite(raw)
    assert raw >= -20.0
    if scale > 0.0:
        assert softplus.inverse_of_float(scale) >= -20.0


@budget.cases(20)
@hypothesis.given(_gaussians(), _SCALES, st.floats(1e-6, 1.0))
def test_collapsed_means_cost_at_least_their_prior(q, prior_scale, alpha_reg):
    kl = float(collapsed.collapsed_mean_kl(q, prior_scale, alpha_reg))
    least = -0.5 * math.log(alpha_reg)
    assert kl >= least - 1e-12 * (1.0 + abs(kl))
    wide = gaussian.Gaussian(
        _tensor(0.0), _tensor(prior_scale / math.sqrt(alpha_reg))
    )
    # The bound on the divergence from the marginal prior, and its gap.
    gap = 0.5 * (1.0 - alpha_reg) * float(q.scale / prior_scale) ** 2
    expected = float(gaussian.kl_divergence(q, wide)) + gap
    np.testing.assert_allclose(kl, expected, rtol=1e-9, atol=1e-9)


_SHAPES = st.floats(0.01, 1e3)


@budget.cases(20)
@hypothesis.given(_gaussians(), _SHAPES, _SCALES, st.floats(1e-3, 1.0))
def test_collapsed_variances_are_least_where_they_should_be(
    q, shape, rate, delta
):
    kl = float(collapsed.collapsed_mean_variance_kl(q, shape, rate, delta))
    best = gaussian.Gaussian(_tensor(0.0), _tensor(math.sqrt(rate / shape)))
    least = collapsed.collapsed_mean_variance_kl(best, shape, rate, delta)
    assert math.isfinite(kl)
    assert kl >= float(least) - 1e-9 * (1.0 + abs(kl))


@budget.cases(15)
@any_two
def test_log_uniform_divergences_rise_with_the_signal(q, other):
    kls = [float(log_uniform.kl_divergence(each)) for each in (q, other)]
    ratios = [float(log_uniform.log_noise_ratio(each)) for each in (q, other)]
    assert all(math.isfinite(kl) and kl > -1e-12 for kl in kls)
    if ratios[0] < ratios[1]:
        assert kls[0] >= kls[1]


@budget.cases(15)
@hypothesis.given(_NUMBERS, st.floats(0.01, 0.99), _SCALES, _SCALES)
def test_the_scale_mixture_is_that_of_scipy(x, weight, scale_1, scale_2):
    found = float(scale_mixture.log_prob(_tensor(x), weight, scale_1, scale_2))
    expected = np.logaddexp(
        math.log(weight) + scipy.stats.norm.logpdf(x, 0.0, scale_1),
        math.log1p(-weight) + scipy.stats.norm.logpdf(x, 0.0, scale_2),
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@budget.cases(20)
@hypothesis.given(
    _gaussians(st.floats(-3.0, 1.0).map(lambda x: 10.0**x)),
    st.floats(-10.0, 10.0),
    _RATIOS,
)
def test_the_divergence_is_split_by_the_auxiliary_variable(q, loc, ratio):
    q = gaussian.Gaussian(q.loc / 1e3, q.scale)
    p = gaussian.Gaussian(_tensor(loc), _tensor(1.0))
    q_a = auxiliary.auxiliary_posterior(q, p, ratio)
    p_a = auxiliary.auxiliary_prior(p, ratio)
    nodes, weights = np.polynomial.hermite_e.hermegauss(3)
    rest = 0.0
    for node, weight in zip(nodes, weights / np.sum(weights), strict=True):
        a = q_a.loc + node * q_a.scale  # exact: it is quadratic in `a`
        rest += weight * gaussian.kl_divergence(
            auxiliary.posterior_given_auxiliary(q, p, ratio, a),
            auxiliary.prior_given_auxiliary(p, ratio, a),
        )
    whole = gaussian.kl_divergence(q, p)
    parts = gaussian.kl_divergence(q_a, p_a) + rest
    np.testing.assert_allclose(parts, whole, rtol=1e-8, atol=1e-8)


@st.composite
def _factors(draw):
    size, rank = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    numbers = st.floats(-5.0, 5.0)
    factor = draw(st.lists(numbers, min_size=size * rank, max_size=size * rank))
    scale = draw(st.lists(st.floats(1e-3, 10.0), min_size=size, max_size=size))
    return _tensor(scale), tf.reshape(_tensor(factor), [rank, size])


@budget.cases(20)
@hypothesis.given(_factors())
def test_correlations_cost_what_their_covariance_does(drawn):
    scale, factor = drawn
    covariance = tf.linalg.diag(tf.square(scale)) + tf.matmul(
        factor, factor, transpose_a=True
    ) / len(factor)
    marginal = low_rank.marginal_scale(scale, factor)
    np.testing.assert_allclose(
        tf.square(marginal), tf.linalg.diag_part(covariance), rtol=1e-10
    )
    found = float(low_rank.total_correlation(scale, factor))
    assert found >= -1e-9
    expected = float(
        tf.reduce_sum(tf.math.log(marginal))
        - 0.5 * np.linalg.slogdet(covariance)[1]
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@budget.cases(20)
@hypothesis.given(st.lists(_RATIOS, min_size=1, max_size=6))
def test_ratios_and_fractions_of_a_variance_invert_each_other(ratios):
    fractions = variance_schedule.fractions_from_ratios(ratios)
    assert 0.0 < sum(fractions) <= 1.0 + 1e-12
    # Until nothing is left.
    left = np.cumprod([1.0 - ratio for ratio in ratios])
    hypothesis.assume(left[-1] > 1e-6)
    again = variance_schedule.ratios_from_fractions(fractions)
    np.testing.assert_allclose(again, ratios, rtol=1e-6)


_PROBS = st.lists(st.floats(0.0, 1.0), min_size=2, max_size=4)


@budget.cases(15)
@hypothesis.given(_PROBS, st.floats(1e-4, 10.0))
def test_dirichlet_targets_have_the_means_of_gamma_variables(
    labels, concentration
):
    targets = dirichlet.gaussian_targets(_tensor(labels), concentration)
    mean = np.exp(targets.loc + 0.5 * targets.variance)
    shape = np.asarray(labels) + concentration
    np.testing.assert_allclose(mean, shape, rtol=1e-9)
    np.testing.assert_allclose(
        mean**2 * np.expm1(targets.variance), shape, rtol=1e-9
    )
    centered = dirichlet.center(targets)
    weights = 1.0 / targets.variance
    mean = float(tf.reduce_sum(weights * centered.loc) / np.sum(weights))
    assert abs(mean) < 1e-9 * (1.0 + np.max(np.abs(targets.loc)))


@budget.cases(15)
@hypothesis.given(
    st.lists(st.floats(0.0, 1e8), min_size=1, max_size=4), _SCALES, _SCALES
)
def test_a_stronger_prior_leaves_fewer_effective_parameters(
    eigenvalues, one, other
):
    low, high = sorted((one, other))
    numbers = [
        float(laplace_evidence.effective_number(_tensor(eigenvalues), each))
        for each in (_tensor(low), _tensor(high))
    ]
    assert len(eigenvalues) + 1e-12 >= numbers[0] >= numbers[1] >= 0.0
    evidence = laplace_evidence.log_evidence(
        _tensor(-1.0), _tensor(1.0), _tensor(eigenvalues), _tensor(low)
    )
    assert math.isfinite(float(evidence))


@budget.cases(15)
@hypothesis.given(
    st.lists(st.floats(-50.0, 50.0), min_size=2, max_size=4),
    st.floats(0.0, 1e6),
)
def test_class_probabilities_of_gaussian_logits_are_probabilities(
    mean, variance
):
    mean = _tensor(mean)
    covariance = variance * tf.eye(len(mean), dtype=tf.float64)
    of_none = tf.zeros_like(covariance)
    for log_probs, exact in (
        (
            logistic_normal.multiclass_probit(
                mean, tf.linalg.diag_part(covariance)
            ),
            logistic_normal.multiclass_probit(mean, tf.zeros_like(mean)),
        ),
        (
            logistic_normal.mean_field(mean, covariance),
            logistic_normal.mean_field(mean, of_none),
        ),
    ):
        assert np.all(np.isfinite(log_probs))
        np.testing.assert_allclose(np.sum(np.exp(log_probs)), 1.0, rtol=1e-10)
        np.testing.assert_allclose(
            exact, tf.nn.log_softmax(mean), rtol=1e-9, atol=1e-9
        )


@budget.cases(15)
@hypothesis.given(
    st.integers(1, 5),
    st.integers(1, 4),
    st.sampled_from([None, True, False]),
    st.floats(-3.0, 3.0),
    st.integers(0, 100),
)
def test_a_linear_regression_is_that_of_the_normal_equations(
    num, size, dual, log_noise, seed
):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(num, size)), rng.normal(size=(num, 2))
    noise, prior = 10.0**log_noise, rng.uniform(0.1, 2.0)
    posterior = linear_regression.fit(
        _tensor(x), _tensor(y), noise, prior, covariance=True, dual=dual
    )
    precision = x.T @ x / noise + np.eye(size) / prior
    expected = np.linalg.solve(precision, x.T @ y / noise)
    covariance = np.linalg.inv(precision)
    np.testing.assert_allclose(posterior.mean, expected, rtol=1e-5, atol=1e-7)
    for found, matrix in (
        (posterior.covariance, covariance),
        (posterior.precision, precision),
    ):
        diagonals = np.tile(np.diag(matrix)[:, np.newaxis], (1, 2))
        np.testing.assert_allclose(found, diagonals, rtol=1e-5)
    marginal = x @ x.T * prior + noise * np.eye(num)
    log_evidence = scipy.stats.multivariate_normal.logpdf(
        y.T, np.zeros(num), marginal
    )
    np.testing.assert_allclose(
        posterior.log_evidence, log_evidence, rtol=1e-6, atol=1e-6
    )
