import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from tfp_refine.math import laplace_evidence

# N, D.
SHAPES = [(12, 4), (3, 7), (1, 1)]
NOISE = 0.4


class Regression:
    """Bayesian linear regression; all that depends on the prior is at hand."""

    def __init__(self, rng, shape):
        self.x = rng.normal(size=shape)
        self.y = self.x @ rng.normal(size=shape[1])
        self.y += NOISE * rng.normal(size=shape[0])
        self.hessian = self.x.T @ self.x / NOISE**2
        self.eigenvalues = np.linalg.eigvalsh(self.hessian)

    def mode(self, precision):
        return np.linalg.solve(
            self.hessian + precision * np.eye(len(self.hessian)),
            self.x.T @ self.y / NOISE**2,
        )

    def log_likelihood(self, weights):
        return np.sum(stats.norm.logpdf(self.y, self.x @ weights, NOISE))

    def found(self, precision, weights):
        """Computes the evidence by the code under test, at `weights`."""
        return laplace_evidence.log_evidence(
            self.log_likelihood(weights),
            np.sum(weights**2),
            tf.constant(self.eigenvalues),
            precision,
        )

    def exact(self, precision):
        noise = NOISE**2 * np.eye(len(self.y))
        return stats.multivariate_normal.logpdf(
            self.y, cov=noise + self.x @ self.x.T / precision
        )


@pytest.mark.parametrize("precision", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_evidence_of_linear_regression_is_exact(rng, shape, precision):
    problem = Regression(rng, shape)
    found = problem.found(precision, problem.mode(precision))
    assert found.shape == ()
    np.testing.assert_allclose(found, problem.exact(precision), rtol=1e-9)


def test_away_from_the_mode_the_evidence_is_too_low(rng):
    problem = Regression(rng, (12, 4))
    mode = problem.mode(1.0)
    for scale in (-0.1, 0.1):
        moved = mode + scale * rng.normal(size=4)
        assert problem.found(1.0, moved) < problem.exact(1.0) - 1e-3


def test_no_digits_are_lost_in_many_undetermined_weights():
    # log(delta + l) - log(delta) of 1e4 weights would be 0.
    eigenvalues = tf.fill([10_000], tf.constant(1e-18, tf.float64))
    found = laplace_evidence.log_evidence(0.0, 0.0, eigenvalues, 1.0)
    np.testing.assert_allclose(found, -0.5e-14, rtol=1e-6)


@pytest.mark.parametrize("precision", [0.01, 1.0, 30.0])
def test_the_slope_is_by_the_effective_number(rng, precision):
    eigenvalues = tf.constant(rng.gamma(1.0, 5.0, size=6))
    squared_norm = tf.constant(2.3, tf.float64)
    log_precision = tf.constant(np.log(precision))
    with tf.GradientTape() as tape:
        tape.watch(log_precision)
        value = laplace_evidence.log_evidence(
            tf.constant(-4.0, tf.float64),
            squared_norm,
            eigenvalues,
            tf.exp(log_precision),
        )
    number = laplace_evidence.effective_number(eigenvalues, precision)
    np.testing.assert_allclose(
        tape.gradient(value, log_precision),
        0.5 * (number - precision * squared_norm),
        rtol=1e-10,
    )


def test_at_the_highest_evidence_the_weights_are_as_large_as_expected(rng):
    problem = Regression(rng, (30, 4))
    precision = 1.0
    for _ in range(200):
        number = laplace_evidence.effective_number(
            tf.constant(problem.eigenvalues), precision
        ).numpy()
        precision = number / np.sum(problem.mode(precision) ** 2)
    best = problem.exact(precision)
    assert best > problem.exact(precision * 1.05)
    assert best > problem.exact(precision / 1.05)


def test_the_effective_number_counts_the_weights_that_data_determine(rng):
    eigenvalues = rng.gamma(1.0, 5.0, size=6)
    eigenvalues[0] = 0.0
    numbers = [
        laplace_evidence.effective_number(
            tf.constant(eigenvalues), precision
        ).numpy()
        for precision in (1e-12, 0.1, 1.0, 10.0, 1e12)
    ]
    assert np.all(np.diff(numbers) < 0.0)
    # A weight of which the data say nothing is never counted.
    np.testing.assert_allclose(numbers[0], 5.0, rtol=1e-9)
    np.testing.assert_allclose(numbers[-1], 0.0, atol=1e-9)
    expected = np.sum(eigenvalues / (eigenvalues + 1.0))
    np.testing.assert_allclose(numbers[2], expected, rtol=1e-12)


def test_the_effective_number_is_the_trace_of_the_hat_matrix(rng):
    problem = Regression(rng, (12, 4))
    shrunk = problem.hessian + 3.0 * np.eye(4)
    expected = np.trace(np.linalg.solve(shrunk, problem.hessian))
    found = laplace_evidence.effective_number(
        tf.constant(problem.eigenvalues), 3.0
    )
    np.testing.assert_allclose(found, expected, rtol=1e-10)
