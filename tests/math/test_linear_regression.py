import numpy as np
import pytest
import sklearn.gaussian_process
import sklearn.linear_model
import tensorflow as tf
import tensorflow_probability as tfp
from scipy import stats

from tests.support import regression_problem
from tfp_refine.math import linear_regression

tfd = tfp.distributions

# N, D, M.
SHAPES = [(12, 5, 3), (4, 9, 2), (1, 1, 1)]


# The posterior and the evidence.


def in_every_way(function):
    for mark in (
        pytest.mark.parametrize("dual", [False, True]),
        pytest.mark.parametrize("same_x", [True, False]),
        pytest.mark.parametrize("noise", regression_problem.NOISE_SHAPES),
        pytest.mark.parametrize("shape", SHAPES),
    ):
        function = mark(function)
    return function


@in_every_way
def test_the_posterior_is_that_of_the_inverse(rng, shape, noise, same_x, dual):
    problem = regression_problem.Problem(rng, shape, noise, same_x)
    found = problem.fit(covariance=True, dual=dual)
    precisions = problem.precisions()
    covariances = np.linalg.inv(precisions)
    means = [
        covariance @ x.T @ (y / noise)
        for covariance, (x, y, noise) in zip(
            covariances, problem.each(), strict=True
        )
    ]
    diagonals = [
        np.diagonal(m, axis1=1, axis2=2).T for m in (precisions, covariances)
    ]
    expected = [np.transpose(means), *diagonals]
    for one, other in zip(found[:3], expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@in_every_way
def test_the_evidence_is_the_density_of_the_targets(
    rng, shape, noise, same_x, dual
):
    problem = regression_problem.Problem(rng, shape, noise, same_x)
    expected = [
        stats.multivariate_normal.logpdf(
            y, cov=x @ np.diag(problem.prior) @ x.T + np.diag(noise)
        )
        for x, y, noise in problem.each()
    ]
    found = problem.fit(dual=dual).log_evidence
    assert found.shape == (shape[-1],)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("shape", [(30, 4, 1), (12, 9, 1)])
def test_the_posterior_is_that_of_bayesian_ridge(rng, shape):
    problem = regression_problem.Problem(rng, shape)
    problem.y += problem.x @ rng.normal(size=(shape[1], 1))
    ridge = sklearn.linear_model.BayesianRidge(
        fit_intercept=False,
        compute_score=True,
        alpha_1=0.0,
        alpha_2=0.0,
        lambda_1=0.0,
        lambda_2=0.0,
        max_iter=2000,
        tol=1e-12,
    ).fit(problem.x, problem.y[:, 0])
    problem.noise = 1.0 / ridge.alpha_
    problem.prior = np.full(shape[1], 1.0 / ridge.lambda_)
    found = problem.fit(covariance=True)
    np.testing.assert_allclose(found.mean[:, 0], ridge.coef_, rtol=1e-6)
    np.testing.assert_allclose(
        found.covariance[:, 0], np.diag(ridge.sigma_), rtol=1e-6
    )
    np.testing.assert_allclose(
        found.log_evidence[0], ridge.scores_[-1], rtol=1e-8
    )


@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize("shape", [(12, 5, 1), (4, 9, 1)])
def test_the_evidence_is_that_of_a_gaussian_process(rng, shape, dual):
    problem = regression_problem.Problem(rng, shape)
    process = sklearn.gaussian_process.GaussianProcessRegressor(
        sklearn.gaussian_process.kernels.DotProduct(0.0, "fixed"),
        alpha=problem.noise[:, 0],
    ).fit(problem.x * np.sqrt(problem.prior), problem.y[:, 0])
    points = rng.normal(size=(3, shape[1]))
    expected = process.predict(points * np.sqrt(problem.prior))

    found = problem.fit(dual=dual)
    np.testing.assert_allclose(
        found.log_evidence[0], process.log_marginal_likelihood_value_, rtol=1e-9
    )
    np.testing.assert_allclose(
        points @ found.mean[:, 0].numpy(), expected, rtol=1e-9
    )


# Ways to the same.


@pytest.mark.parametrize("same_x", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_noise_of_one_scale_may_be_given_in_any_shape(rng, shape, same_x):
    problem = regression_problem.Problem(rng, shape, same_x=same_x)
    problem.noise = 0.3
    expected = problem.fit(covariance=True)
    num, _, outputs = shape
    for noise_shape in [(1,), (1, 1), (num, 1), (outputs,), (num, outputs)]:
        problem.noise = np.full(noise_shape, 0.3)
        regression_problem.assert_equal_posteriors(
            problem.fit(covariance=True), expected
        )


@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize("noise", regression_problem.NOISE_SHAPES)
def test_inputs_may_be_given_once_for_each_output(rng, noise, dual):
    problem = regression_problem.Problem(rng, (6, 4, 3), noise)
    expected = problem.fit(covariance=True, dual=dual)
    problem.x = np.stack([problem.x] * 3)
    regression_problem.assert_equal_posteriors(
        problem.fit(covariance=True, dual=dual), expected
    )


@pytest.mark.parametrize("dual", [False, True])
def test_variances_may_be_numbers_of_python_and_are_not_rounded(rng, dual):
    problem = regression_problem.Problem(rng, (6, 4, 3))
    x, y = tf.constant(problem.x), tf.constant(problem.y)
    found = linear_regression.fit(x, y, 0.1, 0.3, covariance=True, dual=dual)
    problem.noise, problem.prior = np.full([6, 1], 0.1), np.full(4, 0.3)
    expected = problem.fit(covariance=True, dual=dual)
    regression_problem.assert_equal_posteriors(found, expected, rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("block_size", "same_x"), [(1, False), (2, True), (2, False), (100, True)]
)
@pytest.mark.parametrize("graph", [False, True])
def test_outputs_may_be_solved_in_blocks(rng, block_size, same_x, graph):
    problem = regression_problem.Problem(rng, (6, 4, 5), same_x=same_x)
    expected = problem.fit(covariance=True, block_size=5)

    def fit():
        return problem.fit(covariance=True, block_size=block_size)

    found = tf.function(fit)() if graph else fit()
    regression_problem.assert_equal_posteriors(found, expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_both_forms_are_the_same(rng, shape):
    problem = regression_problem.Problem(rng, shape)
    regression_problem.assert_equal_posteriors(
        problem.fit(covariance=True, dual=True),
        problem.fit(covariance=True, dual=False),
    )


# Limits.


def assert_is_prior(found, problem):
    prior = np.repeat(problem.prior[:, None], found.mean.shape[1], axis=1)
    np.testing.assert_allclose(found.mean, np.zeros_like(prior), atol=1e-25)
    np.testing.assert_allclose(found.precision, 1.0 / prior, rtol=1e-14)
    np.testing.assert_allclose(found.covariance, prior, rtol=1e-14)


@pytest.mark.parametrize("same_x", [True, False])
@pytest.mark.parametrize("noise", regression_problem.NOISE_SHAPES)
@pytest.mark.parametrize("dual", [False, True])
def test_without_examples_the_posterior_is_the_prior(rng, noise, same_x, dual):
    problem = regression_problem.Problem(rng, (0, 4, 3), noise, same_x)
    found = problem.fit(covariance=True, dual=dual)
    assert_is_prior(found, problem)
    np.testing.assert_array_equal(found.log_evidence, np.zeros(3))


@pytest.mark.parametrize("noise", [1e30, np.inf])
@pytest.mark.parametrize("dual", [False, True])
def test_noise_without_limit_leaves_the_prior(rng, noise, dual):
    problem = regression_problem.Problem(rng, (6, 4, 3))
    problem.noise = np.full([6, 3], noise)
    assert_is_prior(problem.fit(covariance=True, dual=dual), problem)


@pytest.mark.parametrize("dual", [False, True])
def test_examples_of_infinite_noise_have_no_say(rng, dual):
    problem = regression_problem.Problem(rng, (6, 4, 3))
    problem.noise[4:] = np.inf
    found = problem.fit(covariance=True, dual=dual)
    problem.x, problem.y, problem.noise = (
        value[:4] for value in (problem.x, problem.y, problem.noise)
    )
    expected = problem.fit(covariance=True, dual=dual)
    regression_problem.assert_equal_posteriors(
        found._replace(log_evidence=0.0), expected._replace(log_evidence=0.0)
    )


@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize("noise", [1e-10, 1e-16, 1e-25])
def test_the_least_noise_leaves_variances_in_order(rng, noise, dual):
    problem = regression_problem.Problem(rng, (4, 4, 3))
    problem.noise = noise
    found = problem.fit(covariance=True, dual=dual)
    assert np.all(found.covariance >= 1.0 / found.precision)
    assert np.all(np.isfinite(found.mean))


# Singular designs.


@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize("noise", ["scalar", "both"])
@pytest.mark.parametrize("num", [3, 20])
def test_equal_columns_share_one_weight(rng, num, noise, dual):
    problem = regression_problem.Problem(rng, (num, 4, 2), noise)
    problem.x[:, 0] = 1.0
    problem.prior[:] = 0.7
    problem.noise *= 1e-4
    copies = 5
    repeated = regression_problem.Problem(rng, (num, 4 * copies, 2), noise)
    repeated.x = np.tile(problem.x, copies)
    repeated.y, repeated.noise = problem.y, problem.noise
    repeated.prior[:] = 0.7 / copies

    expected = problem.fit(dual=dual)
    found = repeated.fit(dual=dual)
    np.testing.assert_allclose(
        found.mean, np.tile(expected.mean, [copies, 1]) / copies, rtol=1e-8
    )
    np.testing.assert_allclose(
        found.log_evidence, expected.log_evidence, rtol=1e-8
    )


@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize("noise", ["scalar", "both"])
def test_the_weight_of_a_column_of_zeros_keeps_its_prior(rng, noise, dual):
    problem = regression_problem.Problem(rng, (6, 4, 3), noise)
    problem.x[:, 2] = 0.0
    found = problem.fit(covariance=True, dual=dual)
    np.testing.assert_array_equal(found.mean[2], np.zeros(3))
    for value in (1.0 / found.precision[2], found.covariance[2]):
        np.testing.assert_allclose(
            value, np.full(3, problem.prior[2]), rtol=1e-14
        )


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
@pytest.mark.parametrize("dual", [False, True])
def test_equal_columns_do_not_break_the_decomposition(rng, dtype, dual):
    problem = regression_problem.Problem(rng, (30, 8, 2))
    problem.x[:] = problem.x[:, :1]
    problem.noise *= 1e-6
    problem.prior[:] = 100.0
    found = problem.fit(dtype, covariance=True, dual=dual)
    for value in found:
        assert np.all(np.isfinite(value))
    # Seven of eight directions have the variance of the prior.
    np.testing.assert_allclose(
        found.covariance, np.full([8, 2], 87.5), rtol=1e-5
    )


# Independent Gaussians.


@pytest.mark.parametrize("divergence", ["reverse", "forward"])
@pytest.mark.parametrize("minimized", ["reverse", "forward"])
def test_the_factorized_variance_is_least_in_its_own_divergence(
    rng, divergence, minimized
):
    problem = regression_problem.Problem(rng, (7, 4, 3))
    posterior = problem.fit(covariance=True)
    loc = tf.transpose(posterior.mean)
    variance = tf.transpose(
        linear_regression.factorized_variance(posterior, divergence)
    )
    exact = tfd.MultivariateNormalTriL(
        loc, np.linalg.cholesky(np.linalg.inv(problem.precisions()))
    )

    def kl(q_loc, log_variance):
        q = tfd.MultivariateNormalDiag(q_loc, tf.exp(0.5 * log_variance))
        pair = (q, exact) if minimized == "reverse" else (exact, q)
        return tf.reduce_sum(tfd.kl_divergence(*pair))

    _, (d_loc, d_log_variance) = tfp.math.value_and_gradient(
        kl, [loc, tf.math.log(variance)]
    )
    np.testing.assert_allclose(d_loc, np.zeros([3, 4]), atol=1e-12)
    if divergence == minimized:
        np.testing.assert_allclose(d_log_variance, np.zeros([3, 4]), atol=1e-12)
    else:
        assert np.all(np.abs(d_log_variance) > 1e-3)


def test_the_default_divergence_is_that_of_variational_inference(rng):
    posterior = regression_problem.Problem(rng, (7, 4, 3)).fit()
    np.testing.assert_array_equal(
        linear_regression.factorized_variance(posterior),
        1.0 / posterior.precision,
    )


@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize("shape", [(7, 4, 3), (4, 9, 3)])
def test_directions_agree_if_and_only_if_features_are_orthogonal(
    rng, shape, dual
):
    problem = regression_problem.Problem(rng, shape, "scalar")

    def variances():
        posterior = problem.fit(covariance=True, dual=dual)
        return [
            linear_regression.factorized_variance(posterior, divergence)
            for divergence in ("reverse", "forward")
        ]

    narrow, wide = variances()
    assert np.all(narrow < wide)
    num, size, _ = shape
    problem.x = np.eye(num, size) * rng.normal(size=size)
    if num > size:
        rotation, _ = np.linalg.qr(rng.normal(size=(num, num)))
        problem.x = rotation @ problem.x
    narrow, wide = variances()
    np.testing.assert_allclose(narrow, wide, rtol=1e-12)
