import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tests.support import statistics
from tfp_refine.math import gaussian
from tfp_refine.math import low_rank

tfd = tfp.distributions

# Of `1 + x`, where `x` is up to 1e4: with more factors than weights, the least
# eigenvalues of the K by K matrix are 1.
ROUNDING = 1e-11

SHAPES = [(1, 7), (3, 7), (9, 4), (2, 3, 2, 4), (4, 1)]


def draw(rng, shape):
    """Draws `scale` and `factor`; some weights are all but independent."""
    scale = rng.uniform(0.05, 2.0, size=shape[1:])
    factor = rng.normal(size=shape) * rng.uniform(0.01, 2.0, size=shape[1:])
    return tf.constant(scale), tf.constant(factor)


def covariance_of(scale, factor):
    """Builds the covariance of all weights, as one matrix."""
    rows = np.reshape(factor, [len(factor), -1])
    return np.diag(np.ravel(scale) ** 2) + rows.T @ rows / len(factor)


@pytest.mark.parametrize("shape", SHAPES)
def test_marginal_scale_is_the_root_of_the_diagonal_of_the_covariance(
    rng, shape
):
    scale, factor = draw(rng, shape)
    found = low_rank.marginal_scale(scale, factor)
    assert found.shape == shape[1:]
    expected = np.sqrt(np.diag(covariance_of(scale, factor)))
    np.testing.assert_allclose(np.ravel(found), expected, rtol=1e-13)


@pytest.mark.parametrize("shape", SHAPES)
def test_total_correlation_is_what_determinants_say(rng, shape):
    scale, factor = draw(rng, shape)
    covariance = covariance_of(scale, factor)
    found = low_rank.total_correlation(scale, factor)
    assert found.shape == ()
    _, log_det = np.linalg.slogdet(covariance)
    expected = 0.5 * (np.sum(np.log(np.diag(covariance))) - log_det)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=ROUNDING)


@pytest.mark.parametrize("shape", SHAPES)
def test_marginals_and_total_correlation_make_up_the_whole_divergence(
    rng, shape
):
    scale, factor = draw(rng, shape)
    loc, prior_loc = tf.unstack(tf.constant(rng.normal(size=(2, *shape[1:]))))
    prior_scale = tf.constant(rng.uniform(0.1, 3.0, size=shape[1:]))

    marginals = gaussian.Gaussian(loc, low_rank.marginal_scale(scale, factor))
    prior = gaussian.Gaussian(prior_loc, prior_scale)
    found = tf.reduce_sum(
        gaussian.kl_divergence(marginals, prior)
    ) + low_rank.total_correlation(scale, factor)

    expected = tfd.kl_divergence(
        tfd.MultivariateNormalTriL(
            np.ravel(loc), np.linalg.cholesky(covariance_of(scale, factor))
        ),
        tfd.MultivariateNormalTriL(
            np.ravel(prior_loc), np.diag(np.ravel(prior_scale))
        ),
    )
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_draws_as_described_have_the_marginal_scale(rng):
    num = 20_000
    scale, factor = draw(rng, (3, 2, 4))
    e = rng.normal(size=(num, 2, 4))
    z = rng.normal(size=(num, 3))
    draws = 0.4 + scale * e + 3**-0.5 * np.tensordot(z, factor, 1)
    statistics.assert_variance(
        draws,
        np.square(low_rank.marginal_scale(scale, factor)),
        resolves_ratio=1.2,
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_independent_coordinates_have_no_total_correlation(rng, shape):
    scale, _ = draw(rng, shape)
    zero = tf.zeros(shape, tf.float64)
    assert low_rank.total_correlation(scale, zero) == 0.0
    np.testing.assert_allclose(
        low_rank.marginal_scale(scale, zero), scale, rtol=1e-15
    )


@pytest.mark.parametrize("coordinate", [0, 3])
def test_a_factor_of_one_coordinate_correlates_nothing(rng, coordinate):
    scale, _ = draw(rng, (1, 5))
    factor = np.zeros([1, 5])
    factor[0, coordinate] = 3.0
    found = low_rank.total_correlation(scale, tf.constant(factor))
    np.testing.assert_allclose(found, 0.0, atol=1e-14)


def test_two_coordinates_have_the_total_correlation_of_their_correlation():
    scale = tf.constant([0.5, 2.0], tf.float64)
    factor = tf.constant([[1.0, -3.0]], tf.float64)
    correlation = -3.0 / np.sqrt((0.25 + 1.0) * (4.0 + 9.0))
    found = low_rank.total_correlation(scale, factor)
    expected = -0.5 * np.log(1.0 - correlation**2)
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("size", [1e-9, 1e-4, 0.1, 1.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_total_correlation_is_not_negative(rng, shape, size):
    for _ in range(5):
        scale, factor = draw(rng, shape)
        found = low_rank.total_correlation(scale, size * factor)
        assert found >= -ROUNDING


@pytest.mark.parametrize("shape", SHAPES)
def test_mixing_the_factors_changes_nothing(rng, shape):
    scale, factor = draw(rng, shape)
    rotation, _ = np.linalg.qr(rng.normal(size=(shape[0], shape[0])))
    mixed = tf.tensordot(rotation, factor, 1)
    for function in (low_rank.marginal_scale, low_rank.total_correlation):
        np.testing.assert_allclose(
            function(scale, mixed),
            function(scale, factor),
            rtol=1e-11,
            atol=ROUNDING,
        )


@pytest.mark.parametrize("shape", SHAPES)
def test_repeating_the_factors_changes_nothing(rng, shape):
    scale, factor = draw(rng, shape)
    twice = tf.concat([factor, factor], axis=0)
    for function in (low_rank.marginal_scale, low_rank.total_correlation):
        np.testing.assert_allclose(
            function(scale, twice),
            function(scale, factor),
            rtol=1e-11,
            atol=ROUNDING,
        )


def test_units_of_each_weight_do_not_matter(rng):
    scale, factor = draw(rng, (3, 2, 4))
    units = tf.constant(rng.uniform(1e-3, 1e3, size=(2, 4)))
    np.testing.assert_allclose(
        low_rank.total_correlation(units * scale, units * factor),
        low_rank.total_correlation(scale, factor),
        rtol=1e-12,
    )


@pytest.mark.parametrize(
    "function", [low_rank.marginal_scale, low_rank.total_correlation]
)
@pytest.mark.parametrize("shape", [(1, 3), (3, 2, 2)])
def test_gradients_are_those_of_finite_differences(rng, shape, function):
    parameters = [np.asarray(parameter) for parameter in draw(rng, shape)]

    def loss(*parameters):
        return tf.reduce_sum(function(*parameters))

    _, gradients = tfp.math.value_and_gradient(
        loss, [tf.constant(parameter) for parameter in parameters]
    )
    step = 1e-5
    for index, gradient in enumerate(gradients):
        assert gradient.shape == parameters[index].shape
        for position in np.ndindex(*gradient.shape):
            ends = []
            for sign in (1.0, -1.0):
                moved = [np.copy(parameter) for parameter in parameters]
                moved[index][position] += sign * step
                ends.append(loss(*map(tf.constant, moved)))
            numerical = (ends[0] - ends[1]) / (2.0 * step)
            np.testing.assert_allclose(
                gradient[position], numerical, rtol=1e-6, atol=1e-8
            )


@pytest.mark.parametrize(
    "function", [low_rank.marginal_scale, low_rank.total_correlation]
)
def test_gradients_are_finite_at_a_factor_of_zero(rng, function):
    scale, _ = draw(rng, (3, 2, 4))
    _, gradients = tfp.math.value_and_gradient(
        lambda *v: tf.reduce_sum(function(*v)),
        [scale, tf.zeros([3, 2, 4], tf.float64)],
    )
    for gradient in gradients:
        assert np.all(np.isfinite(gradient))
    np.testing.assert_array_equal(gradients[1], np.zeros([3, 2, 4]))


def test_many_weights_keep_their_total_correlation_in_single_precision(rng):
    scale, factor = draw(rng, (5, 100_000))
    found = low_rank.total_correlation(
        tf.cast(scale, tf.float32), tf.cast(factor, tf.float32)
    )
    assert found.dtype == tf.float32
    expected = low_rank.total_correlation(scale, factor)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("rank", "size", "ratio"), [(5, 1, 1e4), (9, 4, 1e4), (3, 100, 1e4)]
)
def test_dependent_factors_are_exact_in_single_precision(
    rng, rank, size, ratio
):
    factor = ratio * rng.normal(size=(rank, size))
    factor[1] = factor[0]
    arguments = np.ones(size), factor
    exact = low_rank.total_correlation(
        *(tf.constant(value, tf.float64) for value in arguments)
    )
    scale, factor = (
        tf.Variable(value, dtype=tf.float32) for value in arguments
    )
    with tf.GradientTape() as tape:
        found = low_rank.total_correlation(scale, factor)
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4)
    for gradient in tape.gradient(found, [scale, factor]):
        assert np.all(np.isfinite(gradient))
