"""Formulas in single precision, for small variances."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_refine.math import auxiliary
from tfp_refine.math import gaussian

tfd = tfp.distributions


def make(loc, scale, dtype=tf.float64):
    return gaussian.Gaussian(tf.constant(loc, dtype), tf.constant(scale, dtype))


def cast(p, dtype):
    return gaussian.Gaussian(tf.cast(p.loc, dtype), tf.cast(p.scale, dtype))


def assert_accurate(found, expected, size, rtol=1e-6):
    """Asserts float32 numbers up to rounding of terms of the given size."""
    assert found.dtype == tf.float32
    error = np.abs(found.numpy().astype(np.float64) - expected)
    np.testing.assert_array_less(
        error, np.broadcast_to(rtol * size, error.shape)
    )


@pytest.mark.parametrize("ratio", [0.3, 0.7, 1.0 - 1e-3, 1.0 - 1e-6])
@pytest.mark.parametrize("prior_scale", [1e-3, 1e-2, 1.0])
@pytest.mark.parametrize("scale", [1e-4, 1e-2, 0.5])
def test_single_precision_is_accurate_for_small_variances(
    rng, scale, prior_scale, ratio
):
    # Means and parts as far from zero as the part is uncertain, on either
    # side, so that the innovation is no small difference of the two.
    q, prior = make(0.0, scale), make(0.0, prior_scale)
    unit = auxiliary.auxiliary_posterior(q, prior, ratio).scale.numpy()
    signs = rng.choice([-1.0, 1.0], size=200)
    loc = signs * rng.uniform(1.0, 2.0, size=200) * unit
    part = -signs * rng.uniform(1.0, 2.0, size=200) * unit
    q = make(loc, np.full(200, scale), tf.float32)
    prior = make(np.zeros(200), prior_scale, tf.float32)
    part = tf.constant(part, tf.float32)
    exact_q, exact_prior = cast(q, tf.float64), cast(prior, tf.float64)
    exact_part = tf.cast(part, tf.float64)

    found = auxiliary.auxiliary_prior(prior, ratio)
    p_part = auxiliary.auxiliary_prior(exact_prior, ratio)
    assert_accurate(found.scale, p_part.scale, p_part.scale)

    found = auxiliary.auxiliary_posterior(q, prior, ratio)
    q_part = auxiliary.auxiliary_posterior(exact_q, exact_prior, ratio)
    assert_accurate(found.loc, q_part.loc, np.abs(q_part.loc))
    assert_accurate(found.scale, q_part.scale, q_part.scale)

    found = auxiliary.prior_given_auxiliary(prior, ratio, part)
    exact = auxiliary.prior_given_auxiliary(exact_prior, ratio, exact_part)
    assert_accurate(found.loc, exact.loc, np.abs(exact_part))
    assert_accurate(found.scale, exact.scale, exact.scale)

    found = auxiliary.posterior_given_auxiliary(q, prior, ratio, part)
    exact = auxiliary.posterior_given_auxiliary(
        exact_q, exact_prior, ratio, exact_part
    )
    shift = exact.loc - exact_q.loc
    assert_accurate(found.loc, exact.loc, np.abs(exact_q.loc) + np.abs(shift))
    assert_accurate(found.scale, exact.scale, exact.scale)

    found = auxiliary.log_density_ratio(q, prior, ratio, part)
    exact = auxiliary.log_density_ratio(exact_q, exact_prior, ratio, exact_part)
    size = 1.0 + np.abs(tfd.Normal(*q_part).log_prob(exact_part))
    size += np.abs(tfd.Normal(*p_part).log_prob(exact_part))
    assert_accurate(found, exact, size)


def run_chain(q, prior, ratios, noises):
    """Conditions on one part after the other."""
    for ratio, noise in zip(ratios, noises, strict=True):
        q_part = auxiliary.auxiliary_posterior(q, prior, ratio)
        part = q_part.loc + q_part.scale * noise
        q = auxiliary.posterior_given_auxiliary(q, prior, ratio, part)
        prior = auxiliary.prior_given_auxiliary(prior, ratio, part)
    return q, prior


def test_a_chain_in_single_precision_is_that_in_double(rng):
    # The variance that is left in the end is 2e-9 of the first.
    ratios = [0.7, 0.9, 1.0 - 1e-3, 0.7, 1.0 - 2e-4]
    loc = rng.normal(0.0, 0.01, size=200)
    q = make(loc, rng.uniform(1e-4, 1e-2, size=200), tf.float32)
    prior = make(np.zeros(200), 1.0, tf.float32)
    noises = rng.normal(size=(5, 200)).astype(np.float32)
    found, found_prior = run_chain(q, prior, ratios, noises)
    expected, expected_prior = run_chain(
        cast(q, tf.float64), cast(prior, tf.float64), ratios, noises
    )
    np.testing.assert_array_less(expected_prior.scale, 5e-5)
    assert_accurate(found.scale, expected.scale, expected.scale)
    assert_accurate(
        found_prior.scale, expected_prior.scale, expected_prior.scale
    )
    # Means are sums of parts whose size is up to 1.
    assert_accurate(found.loc, expected.loc, 1.0)
    assert_accurate(found_prior.loc, expected_prior.loc, 1.0)
