import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import bayesian_linear
from tfp_refine import initializers
from tfp_refine import layers
from tfp_refine import losses
from tfp_refine import regularizers

NOISE = 0.49


def draw(rng, num=40, size=5, units=1):
    """Returns inputs and targets that are numbers of single precision."""
    x = rng.normal(size=(num, size)) + rng.normal(size=size)
    y = x @ rng.normal(size=(size, units)) + rng.normal(size=(num, units))
    return bayesian_linear.float32(x), bayesian_linear.float32(y + 1.0)


def prior(kernel, bias):
    """Returns arguments of a layer: variances of the prior."""
    return {
        "kernel_regularizer": regularizers.GaussianKL(kernel**0.5),
        "bias_regularizer": regularizers.GaussianKL(bias**0.5),
    }


def compiled(size, units=1, **arguments):
    model = bayesian_linear.dense_model(size, units, **arguments)
    model.compile("sgd", losses.GaussianNLL(NOISE**0.5))
    return model


def initialize(model, x, y, make=initializers.IBLM, **arguments):
    """Returns means and variances that a layer called "linear" gets."""
    make(**arguments, seed=0, verbose=False)(model, x, y)
    return bayesian_linear.read(model.get_layer("linear"))


def assert_close(found, expected):
    # The mean of the noise is one of numbers of single precision.
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


# The posterior.


@pytest.mark.parametrize("units", [1, 3])
@pytest.mark.parametrize("num", [40, 4])
def test_a_linear_model_gets_the_means_of_its_posterior(units, num, rng):
    x, y = draw(rng, num, units=units)
    mean, variance = initialize(compiled(5, units, **prior(0.3, 2.0)), x, y)
    expected, precision = bayesian_linear.posterior(
        bayesian_linear.with_ones(x), y, NOISE, [0.3] * 5 + [2.0]
    )
    assert_close(mean, expected)
    assert_close(variance, bayesian_linear.inverse_diagonals(precision))


@pytest.mark.parametrize("num", [40, 4])
def test_the_other_divergence_gives_the_variances_of_the_marginals(num, rng):
    x, y = draw(rng, num, units=2)
    mean, variance = initialize(
        compiled(5, 2, **prior(0.3, 2.0)), x, y, divergence="forward"
    )
    expected, precision = bayesian_linear.posterior(
        bayesian_linear.with_ones(x), y, NOISE, [0.3] * 5 + [2.0]
    )
    assert_close(mean, expected)
    assert_close(variance, bayesian_linear.marginal_variances(precision))
    assert np.all(
        variance > 1.01 * bayesian_linear.inverse_diagonals(precision)
    )


def _negative_elbo(x, y, prior_variance, mean, log_std):
    """Computes the bound of a linear model of one output, nats."""
    variance = tf.exp(2.0 * log_std)
    squares = tf.reduce_sum((y - x @ mean) ** 2)
    squares += tf.reduce_sum((x**2) @ variance)
    kl = tf.reduce_sum(
        0.5 * (variance + mean**2) / prior_variance
        - 0.5
        - log_std
        + 0.5 * tf.math.log(prior_variance)
    )
    return 0.5 * squares / NOISE + kl


def test_the_bound_has_no_gradient_there(rng):
    x, y = draw(rng)
    model = compiled(5, **prior(0.3, 2.0))
    # Free of the rounding that the model's noise has.
    mean, variance = initialize(model, x, y, noise_variance=NOISE)
    mean = tf.constant(mean)
    log_std = tf.constant(0.5 * np.log(variance))
    prior_variance = np.array([[0.3]] * 5 + [[2.0]])
    rows = bayesian_linear.with_ones(x)

    def gradients(mean, log_std):
        with tf.GradientTape() as tape:
            tape.watch([mean, log_std])
            loss = _negative_elbo(rows, y, prior_variance, mean, log_std)
        return [np.asarray(g) for g in tape.gradient(loss, [mean, log_std])]

    for gradient in gradients(mean, log_std):
        np.testing.assert_allclose(gradient, 0.0, atol=1e-6)
    for gradient in gradients(mean + 1e-3, log_std + 1e-3):
        assert np.all(np.abs(gradient) > 1e-4)


def test_single_precision_layers_differ_by_rounding_only(rng):
    x, y = draw(rng)
    found = initialize(compiled(5, dtype="float32"), x, y)
    expected = initialize(compiled(5), x, y)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "make_layer",
    [
        layers.DenseFlipout,
        layers.DenseLocalReparameterization,
        layers.DenseReparameterization,
    ],
)
def test_the_estimator_does_not_matter(make_layer, rng):
    x, y = draw(rng)
    found = initialize(compiled(5, make_layer=make_layer), x, y)
    for one, other in zip(found, initialize(compiled(5), x, y), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)


def test_the_posterior_before_does_not_matter(rng):
    x, y = draw(rng)
    model = compiled(5)
    first = initialize(model, x, y)
    second = initialize(model, x, y)
    for one, other in zip(first, second, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)


@pytest.mark.parametrize("broken", ["equal", "constant", "zero"])
def test_degenerate_columns_are_solved(broken, rng):
    x, y = draw(rng)
    x[:, 1] = {"equal": x[:, 0], "constant": 3.0, "zero": 0.0}[broken]
    mean, variance = initialize(compiled(5, **prior(0.3, 2.0)), x, y)
    expected, precision = bayesian_linear.posterior(
        bayesian_linear.with_ones(x), y, NOISE, [0.3] * 5 + [2.0]
    )
    assert_close(mean, expected)
    assert_close(variance, bayesian_linear.inverse_diagonals(precision))
    if broken == "zero":
        assert_close([mean[1, 0], variance[1, 0]], [0.0, 0.3])


@pytest.mark.parametrize("constant", [0.0, 1.0])
def test_inputs_that_are_all_the_same_give_finite_numbers(constant, rng):
    x, y = np.full([30, 5], constant), rng.normal(size=30)
    model = compiled(5)
    for values in initialize(model, x, y, divergence="forward"):
        assert np.all(np.isfinite(values))


# The bias.


def test_a_layer_without_a_bias_is_a_regression_without_one(rng):
    x, y = draw(rng)
    mean, variance = initialize(
        compiled(5, use_bias=False, **prior(0.3, 2.0)), x, y
    )
    expected, precision = bayesian_linear.posterior(x, y, NOISE, 0.3)
    assert_close(mean, expected)
    assert_close(variance, bayesian_linear.inverse_diagonals(precision))


def point_bias(size, units=1, **arguments):
    """Returns a model of a layer that has a bias without a posterior."""
    return compiled(size, units, bias_posterior=None, **arguments)


def test_a_bias_without_posterior_gets_the_mean(rng):
    x, y = draw(rng, units=2)
    model = point_bias(
        5,
        2,
        kernel_regularizer=regularizers.GaussianKL(0.3**0.5),
        bias_regularizer=None,
    )
    mean, variance = initialize(model, x, y)
    expected, precision = bayesian_linear.posterior(
        bayesian_linear.with_ones(x), y, NOISE, [0.3] * 5 + [100.0]
    )
    assert_close(mean, expected[:-1])
    assert_close(variance, bayesian_linear.inverse_diagonals(precision)[:-1])
    assert_close(model.get_layer("linear").bias, expected[-1])


# The prior.


@pytest.mark.parametrize(
    ("arguments", "kernel", "bias"),
    [
        ({}, 1.0, 1.0),
        (prior(0.3, 2.0), 0.3, 2.0),
        (
            {
                "kernel_regularizer": regularizers.GaussianKL("fan_in"),
                "bias_regularizer": regularizers.GaussianKL("he"),
            },
            1.0 / 5.0,
            2.0 / 5.0,
        ),
        (
            {
                "kernel_regularizer": regularizers.LogUniformKL(),
                "bias_regularizer": regularizers.LogUniformKL(),
            },
            1.0 / 5.0,
            100.0,
        ),
        (
            {
                "kernel_regularizer": regularizers.CollapsedMeanVarianceKL(),
                "bias_regularizer": "gaussian_kl",
            },
            1.0 / 5.0,
            1.0,
        ),
        (
            {"kernel_regularizer": None, "bias_regularizer": None},
            1.0 / 5.0,
            100.0,
        ),
    ],
    ids=["default", "numbers", "names", "improper", "student", "none"],
)
def test_the_prior_is_that_of_the_layer(arguments, kernel, bias, rng):
    x, y = draw(rng)
    mean, variance = initialize(compiled(5, **arguments), x, y)
    expected, precision = bayesian_linear.posterior(
        bayesian_linear.with_ones(x), y, NOISE, [kernel] * 5 + [bias]
    )
    assert_close(mean, expected)
    assert_close(variance, bayesian_linear.inverse_diagonals(precision))


def test_arguments_take_the_place_of_the_prior(rng):
    x, y = draw(rng)
    mean, variance = initialize(
        compiled(5), x, y, prior_variance=0.2, bias_prior_variance=7.0
    )
    expected, precision = bayesian_linear.posterior(
        bayesian_linear.with_ones(x), y, NOISE, [0.2] * 5 + [7.0]
    )
    assert_close(mean, expected)
    assert_close(variance, bayesian_linear.inverse_diagonals(precision))


# More data than are fitted to.


def test_precisions_are_scaled_to_all_examples(rng):
    x, y = draw(rng, num=20)
    # The mini-batch is not known, but all have the same rows.
    x, y = np.tile(x[:1], (20, 1)), np.tile(y[:1], (20, 1))
    found = {
        scale: initialize(
            compiled(5, **prior(0.3, 2.0)),
            x,
            y,
            bayesian_linear.iblm(scale_precision=scale),
            output_batch_size=8,
        )
        for scale in (False, True)
    }
    prior_variance = [0.3] * 5 + [2.0]
    rows = bayesian_linear.with_ones(x)
    mean, batch = bayesian_linear.posterior(
        rows[:8], y[:8], NOISE, prior_variance
    )
    _, everything = bayesian_linear.posterior(rows, y, NOISE, prior_variance)
    for scale, precision in ((False, batch), (True, everything)):
        assert_close(found[scale][0], mean)
        assert_close(
            found[scale][1], bayesian_linear.inverse_diagonals(precision)
        )


def test_scaled_variances_of_marginals_follow_the_same_formula(rng):
    x, y = draw(rng, num=20)
    x, y = np.tile(x[:1], (20, 1)), np.tile(y[:1], (20, 1))
    _, found = initialize(
        compiled(5, **prior(0.3, 2.0)),
        x,
        y,
        output_batch_size=8,
        divergence="forward",
    )
    prior_variance = np.array([0.3] * 5 + [2.0])
    _, batch = bayesian_linear.posterior(
        bayesian_linear.with_ones(x)[:8], y[:8], NOISE, prior_variance
    )
    of_batch = 1.0 / bayesian_linear.marginal_variances(batch)
    of_prior = 1.0 / prior_variance[:, np.newaxis]
    expected = 1.0 / (of_prior + 20 / 8 * (of_batch - of_prior))
    assert_close(found, expected)


# Data of other kinds.


def test_data_may_come_in_a_dataset_and_targets_without_an_axis(rng):
    x, y = draw(rng)
    expected = initialize(compiled(5), x, y)
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(7)
    for data in ((x, y[:, 0]), (dataset, None), (tf.constant(x), y)):
        found = initialize(compiled(5), *data)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_model_may_have_several_inputs(rng):
    x, y = draw(rng)
    inputs = [keras.Input((2,)), keras.Input((3,))]
    linear = layers.DenseFlipout(1, dtype="float64", name="linear")
    joined = keras.layers.Concatenate()(inputs)
    model = keras.Model(inputs, linear(joined))
    model.compile("sgd", losses.GaussianNLL(NOISE**0.5))
    found = initialize(model, [x[:, :2], x[:, 2:]], y)
    expected = initialize(compiled(5), x, y)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)


def test_the_model_comes_back(rng):
    x, y = draw(rng)
    model = compiled(5)
    assert initializers.IBLM(verbose=False)(model, x, y) is model
