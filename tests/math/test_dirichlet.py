import numpy as np
import pytest
import tensorflow as tf
from scipy import optimize
from scipy import special
from scipy import stats

from tfp_refine.math import dirichlet
from tfp_refine.math import linear_regression


def draw_targets(rng, num=7, classes=3, concentration=0.01):
    labels = np.eye(classes)[rng.integers(classes, size=num)]
    return dirichlet.gaussian_targets(tf.constant(labels), concentration)


# Moments.


@pytest.mark.parametrize("concentration", [1e-3, 0.01, np.exp(-4.0), 1.0])
def test_exponentials_of_the_targets_have_the_moments_of_gamma_variables(
    concentration,
):
    labels = np.array([[0.0, 1.0, 0.0], [0.2, 0.1, 0.7]])
    loc, variance = dirichlet.gaussian_targets(
        tf.constant(labels), concentration
    )
    lognormal = stats.lognorm(s=np.sqrt(variance), scale=np.exp(loc))
    gamma = stats.gamma(labels + concentration)
    np.testing.assert_allclose(lognormal.mean(), gamma.mean(), rtol=1e-12)
    np.testing.assert_allclose(lognormal.var(), gamma.var(), rtol=1e-12)


@pytest.mark.parametrize(
    ("concentration", "one", "zero"),
    [
        (0.01, (-0.3341, 0.6882), (-6.9127, 4.6151)),
        (np.exp(-4.0), (-0.324, 0.684), (-6.009, 4.018)),
    ],
)
def test_targets_are_the_published_ones(concentration, one, zero):
    found = dirichlet.gaussian_targets(
        tf.constant([1.0, 0.0], tf.float64), concentration
    )
    decimals = 4 if concentration == 0.01 else 3
    np.testing.assert_array_equal(
        np.round(found, decimals), np.transpose([one, zero])
    )


def test_the_default_concentration_is_that_of_the_paper():
    labels = tf.eye(3, dtype=tf.float64)
    np.testing.assert_array_equal(
        dirichlet.gaussian_targets(labels),
        dirichlet.gaussian_targets(labels, 0.01),
    )


def test_classes_may_have_concentrations_of_their_own(rng):
    labels = tf.one_hot(rng.integers(3, size=(2, 5)), 3, dtype=tf.float64)
    concentration = tf.constant([0.01, 0.1, 2.0], tf.float64)
    found = dirichlet.gaussian_targets(labels, concentration)
    assert found.loc.shape == found.variance.shape == (2, 5, 3)
    for index in range(3):
        expected = dirichlet.gaussian_targets(
            labels[..., index], concentration[index]
        )
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one[..., index], other, rtol=1e-14)


def test_counts_of_many_labels_keep_their_variance_in_single_precision():
    counts = np.array([1e5, 1e7], np.float32)
    found = dirichlet.gaussian_targets(tf.constant(counts))
    assert found.loc.dtype == found.variance.dtype == tf.float32
    # Gamma variables of large shape are Gaussian.
    np.testing.assert_allclose(found.variance, 1.0 / counts, rtol=1e-5)
    np.testing.assert_allclose(found.loc, np.log(counts), rtol=1e-6)


# Centering.


def test_centering_leaves_the_softmax_and_the_variances(rng):
    targets = draw_targets(rng)
    found = dirichlet.center(targets)
    np.testing.assert_allclose(
        special.softmax(found.loc, axis=-1),
        special.softmax(targets.loc, axis=-1),
        rtol=1e-12,
    )
    np.testing.assert_array_equal(found.variance, targets.variance)


def test_centering_moves_all_targets_by_the_same(rng):
    targets = draw_targets(rng)
    moved = targets.loc - dirichlet.center(targets).loc
    np.testing.assert_allclose(moved, np.full([7, 3], moved[0, 0]), rtol=1e-12)


def test_centering_subtracts_the_most_likely_constant(rng):
    targets = draw_targets(rng)

    def loss(constant):
        log_prob = stats.norm.logpdf(
            targets.loc, constant, np.sqrt(targets.variance)
        )
        return -np.sum(log_prob)

    expected = optimize.minimize_scalar(loss, tol=1e-10).x
    found = targets.loc[0, 0] - dirichlet.center(targets).loc[0, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_centering_subtracts_the_bias_that_a_regression_finds(rng):
    targets = draw_targets(rng)
    loc, variance = (tf.reshape(part, [-1, 1]) for part in targets)
    posterior = linear_regression.fit(
        tf.ones_like(loc), loc, variance, prior_variance=1e12
    )
    found = targets.loc - dirichlet.center(targets).loc
    expected = np.full([7, 3], posterior.mean)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_centering_does_not_depend_on_where_the_targets_were(rng):
    targets = draw_targets(rng)
    moved = targets._replace(loc=targets.loc + 12.0)
    found, expected = map(dirichlet.center, (moved, targets))
    np.testing.assert_allclose(found.loc, expected.loc, atol=1e-13)
    np.testing.assert_allclose(
        dirichlet.center(expected).loc, expected.loc, atol=1e-14
    )
