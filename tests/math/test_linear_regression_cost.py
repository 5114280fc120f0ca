"""Cost of linear regression, and its precision in float32."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support import regression_problem
from tfp_refine.math import linear_regression

# Costs.


@pytest.fixture
def calls(monkeypatch):
    """Records the shapes of decomposed and of inverted matrices."""
    shapes = {"cholesky": [], "triangular_solve": []}

    def record(name, function):
        def spy(matrix, *args):
            shapes[name].append(tuple(matrix.shape))
            return function(matrix, *args)

        monkeypatch.setattr(tf.linalg, name, spy)

    for name in shapes:
        record(name, getattr(tf.linalg, name))
    return shapes


@pytest.mark.parametrize("noise", ["scalar", "examples"])
@pytest.mark.parametrize(("shape", "size"), [((12, 5, 3), 5), ((5, 12, 3), 5)])
def test_outputs_of_the_same_noise_share_the_smaller_decomposition(
    rng, calls, shape, size, noise
):
    regression_problem.Problem(rng, shape, noise).fit()
    assert calls == {"cholesky": [(1, size, size)], "triangular_solve": []}


@pytest.mark.parametrize("same_x", [True, False])
@pytest.mark.parametrize("shape", [(12, 5, 7), (5, 12, 7)])
def test_only_the_covariance_needs_an_inverse(rng, calls, shape, same_x):
    problem = regression_problem.Problem(rng, shape, same_x=same_x)
    found = problem.fit()
    assert calls == {"cholesky": [(7, 5, 5)], "triangular_solve": []}
    assert found.covariance is None
    other = problem.fit(covariance=True)
    assert len(calls["triangular_solve"]) == 1
    for name in ("mean", "precision", "log_evidence"):
        np.testing.assert_array_equal(
            getattr(found, name), getattr(other, name)
        )


@pytest.mark.parametrize(
    ("shape", "same_x", "covariance", "numbers"),
    [
        ((12, 5, 7), True, False, 25 + 60),
        ((12, 5, 7), False, True, 25 + 60),
        ((5, 12, 7), True, False, 25),
        ((5, 12, 7), False, False, 25 + 60),
        ((5, 12, 7), True, True, 25 + 60),
    ],
)
def test_blocks_are_as_large_as_the_bound_allows(
    rng, calls, monkeypatch, shape, same_x, covariance, numbers
):
    problem = regression_problem.Problem(rng, shape, same_x=same_x)
    for bound, blocks in [
        (7 * numbers, [7]),
        (7 * numbers - 1, [4, 4]),
        (4 * numbers - 1, [3, 3, 3]),
        (2 * numbers, [2] * 4),
        (numbers, [1] * 7),
        (numbers - 1, [1] * 7),
    ]:
        monkeypatch.setattr(linear_regression, "_BLOCK_NUMBERS", bound)
        calls["cholesky"].clear()
        problem.fit(covariance=covariance)
        assert calls["cholesky"] == [(size, 5, 5) for size in blocks]


# Precision.


def assert_exact_in_single_precision(problem, rtol):
    for name in ("x", "y", "noise", "prior"):
        value = np.float32(getattr(problem, name))
        setattr(problem, name, np.float64(value))
    found = problem.fit(tf.float32, covariance=True)
    for value in found:
        assert value.dtype == tf.float32
    regression_problem.assert_equal_posteriors(
        found, problem.fit(covariance=True), rtol, atol=0.0
    )


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["scalar", "both"])
def test_single_precision_is_exact_at_the_size_of_layers(rng, noise):
    problem = regression_problem.Problem(rng, (2000, 800, 2), noise)
    # Equal features with a mean: great eigenvalues beside those of 1.
    problem.x = np.tile(np.maximum(problem.x[:, :200], 0.0), 4)
    assert_exact_in_single_precision(problem, rtol=1e-7)


@pytest.mark.parametrize("shape", [(40, 30, 2), (30, 40, 2)])
def test_little_noise_and_a_wide_prior_are_exact_in_single_precision(
    rng, shape
):
    problem = regression_problem.Problem(rng, shape)
    problem.noise *= 1e-6
    problem.prior *= 100.0
    assert_exact_in_single_precision(problem, rtol=1e-5)
