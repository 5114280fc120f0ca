import numpy as np
import pytest
import tensorflow as tf
from scipy import special

from tfp_refine.math import logistic_normal


def random_logits(rng, shape, scale=1.0):
    *batch, classes = shape
    mean = 2.0 * rng.normal(size=shape)
    root = rng.normal(size=(*batch, classes, classes)) / np.sqrt(classes)
    return mean, scale**2 * root @ np.swapaxes(root, -1, -2)


def diagonal(covariance):
    return np.diagonal(covariance, axis1=-2, axis2=-1)


def in_probs(function, *args):
    return np.exp(function(*map(tf.constant, args)))


def multiclass_probit(mean, covariance):
    variance = diagonal(covariance).copy()
    return in_probs(logistic_normal.multiclass_probit, mean, variance)


def mean_field(mean, covariance):
    return in_probs(logistic_normal.mean_field, mean, covariance)


MULTICLASS = pytest.mark.parametrize(
    "approximation", [multiclass_probit, mean_field]
)


# Two classes, one logit.


def test_the_error_of_probit_is_the_documented_one():
    mean, scale = np.meshgrid(
        np.linspace(-10.0, 10.0, 101),
        np.linspace(0.0, 10.0, 51),
        indexing="ij",
    )
    z = np.linspace(-9.0, 9.0, 2001)
    weights = np.exp(-0.5 * z**2)
    weights /= np.sum(weights)
    exact = special.expit(mean[..., None] + scale[..., None] * z) @ weights
    logit = logistic_normal.probit(tf.constant(mean), tf.constant(scale**2))
    error = np.max(np.abs(special.expit(logit) - exact))
    assert 0.015 < error < 0.017


def test_probit_without_variance_is_the_logit():
    mean = tf.linspace(tf.constant(-40.0, tf.float64), 40.0, 9)
    found = logistic_normal.probit(mean, tf.zeros_like(mean))
    np.testing.assert_array_equal(found, mean)


def test_probit_of_unbounded_variance_is_even_odds():
    mean = tf.constant([-3.0, 3.0], tf.float64)
    found = logistic_normal.probit(mean, tf.constant(1e12, tf.float64))
    np.testing.assert_allclose(found, 0.0, atol=1e-5)


# More classes.


@MULTICLASS
def test_without_covariance_probabilities_are_the_softmax(rng, approximation):
    mean = 5.0 * rng.normal(size=(6, 4))
    found = approximation(mean, np.zeros((6, 4, 4)))
    expected = special.softmax(mean, axis=-1)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@MULTICLASS
@pytest.mark.parametrize("shape", [(3,), (5, 2), (2, 3, 6)])
def test_probabilities_sum_to_one(rng, approximation, shape):
    found = approximation(*random_logits(rng, shape, scale=3.0))
    assert found.shape == shape
    assert np.all(found > 0.0)
    np.testing.assert_allclose(np.sum(found, axis=-1), 1.0, rtol=1e-12)


@MULTICLASS
def test_the_classes_have_no_order(rng, approximation):
    mean, covariance = random_logits(rng, (5, 4))
    order = [2, 0, 3, 1]
    moved = approximation(mean[:, order], covariance[:, order][:, :, order])
    expected = approximation(mean, covariance)[:, order]
    np.testing.assert_allclose(moved, expected, rtol=1e-12)


def test_of_two_classes_only_mean_field_is_probit(rng):
    mean, covariance = random_logits(rng, (20, 2), scale=2.0)
    variance = np.sum(diagonal(covariance), axis=-1)
    variance -= 2.0 * covariance[:, 0, 1]
    logit = logistic_normal.probit(
        tf.constant(mean[:, 0] - mean[:, 1]), tf.constant(variance)
    )
    expected = special.expit(logit)
    found = mean_field(mean, covariance)[:, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    other = multiclass_probit(mean, covariance)[:, 0]
    assert np.max(np.abs(other - expected)) > 0.02


def test_mean_field_is_of_differences_of_logits_alone(rng):
    mean, covariance = random_logits(rng, (8, 5))
    expected = mean_field(mean, covariance)
    np.testing.assert_allclose(
        mean_field(mean + 7.0, covariance), expected, rtol=1e-10
    )
    # A random constant that is added to all logits.
    np.testing.assert_allclose(
        mean_field(mean, covariance + 7.0), expected, rtol=1e-10
    )
    # Others take the constant for doubt in each of the classes.
    moved = multiclass_probit(mean, covariance + 7.0)
    assert np.max(np.abs(moved - multiclass_probit(mean, covariance))) > 0.1


def test_a_constant_in_all_logits_leaves_the_softmax(rng):
    mean = rng.normal(size=(6, 4))
    found = mean_field(mean, np.full((6, 4, 4), 3.7))
    expected = special.softmax(mean, axis=-1)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_rounding_in_equal_logits_does_no_harm():
    # Of a difference, the variance is below -8 / pi: probit of that is NaN.
    variance = 1e18
    covariance = np.full((3, 3), variance * (1.0 + 1e-15))
    np.fill_diagonal(covariance, variance)
    mean = np.array([0.3, -0.2, 1.0])
    found = mean_field(mean, covariance)
    np.testing.assert_allclose(found, special.softmax(mean), rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("classes", range(3, 8))
@pytest.mark.parametrize(
    ("approximation", "limit"), [(multiclass_probit, 0.07), (mean_field, 0.055)]
)
def test_probabilities_are_close_to_monte_carlo(
    rng, approximation, limit, classes
):
    cases = [
        random_logits(rng, (classes,), scale=rng.uniform(1.0, 1.5))
        for _ in range(40)
    ]
    errors, plug_in = [], []
    for mean, covariance in cases:
        logits = rng.multivariate_normal(mean, covariance, size=20_000)
        exact = np.mean(special.softmax(logits, axis=-1), axis=0)
        found = approximation(mean, covariance)
        errors.append(np.max(np.abs(found - exact)))
        plug_in.append(np.max(np.abs(special.softmax(mean) - exact)))
    assert np.mean(errors) < limit
    assert np.mean(errors) < 0.85 * np.mean(plug_in)
