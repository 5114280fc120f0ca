import math

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from scipy import integrate
from scipy import stats

from tfp_refine.math import scale_mixture

tfd = tfp.distributions

# weight, scale_1, scale_2
MIXTURES = [
    (0.5, 1.0, math.exp(-6.0)),
    (0.25, math.exp(-1.0), 0.3),
    (0.75, 0.2, 3.0),
]


@pytest.mark.parametrize(("weight", "scale_1", "scale_2"), MIXTURES)
def test_log_prob_is_that_of_tfp(rng, weight, scale_1, scale_2):
    mixture = tfd.MixtureSameFamily(
        tfd.Categorical(probs=np.array([weight, 1.0 - weight])),
        tfd.Normal(np.float64(0.0), np.array([scale_1, scale_2])),
    )
    x = rng.normal(size=(30, 4)) * np.array([1e-3, 0.1, 1.0, 10.0])
    found = scale_mixture.log_prob(tf.constant(x), weight, scale_1, scale_2)
    np.testing.assert_allclose(found, mixture.log_prob(x), rtol=1e-12)


@pytest.mark.parametrize("weight", [0.1, 0.5, 0.9])
def test_equal_scales_are_one_gaussian(rng, weight):
    x = rng.normal(size=50)
    found = scale_mixture.log_prob(tf.constant(x), weight, 0.7, 0.7)
    expected = stats.norm(0.0, 0.7).logpdf(x)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(("weight", "scale_1", "scale_2"), MIXTURES)
def test_density_and_its_variance_integrate(weight, scale_1, scale_2):
    # Over log(x): a spike and a tail need steps of their own length.
    log_x = np.linspace(-45.0, 5.0, 4001)
    x = np.exp(log_x)
    density = np.exp(
        scale_mixture.log_prob(tf.constant(x), weight, scale_1, scale_2)
    )
    mirrored = np.exp(
        scale_mixture.log_prob(tf.constant(-x), weight, scale_1, scale_2)
    )
    for power, expected in (
        (0, 1.0),
        (2, weight * scale_1**2 + (1.0 - weight) * scale_2**2),
    ):
        integrand = (density + mirrored) * x ** (power + 1)
        found = integrate.trapezoid(integrand, log_x)
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_far_tail_and_its_gradient_are_finite_in_single_precision():
    x = tf.constant([0.0, 30.0, -30.0, 1e4], tf.float32)
    found, gradient = tfp.math.value_and_gradient(
        lambda x: scale_mixture.log_prob(x, 0.25, 1.0, 1e-3), x
    )
    assert found.dtype == tf.float32
    # The wide component alone reaches that far, the narrow one rules at zero.
    wide = math.log(0.25) + stats.norm.logpdf(x[1:])
    np.testing.assert_allclose(found[1:], wide, rtol=1e-6)
    narrow = 0.75 * stats.norm.pdf(0.0, scale=1e-3) + 0.25 * stats.norm.pdf(0.0)
    np.testing.assert_allclose(found[0], math.log(narrow), rtol=1e-6)
    np.testing.assert_allclose(gradient, -x, rtol=1e-6)
