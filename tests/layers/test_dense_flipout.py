import functools

import keras
import numpy as np
import pytest

from tests.support import dense_draws
from tests.support import layer_contract
from tests.support import statistics
from tfp_refine import layers
from tfp_refine import regularizers

make = functools.partial(
    layers.DenseFlipout,
    4,
    activation="tanh",
    kernel_regularizer=regularizers.GaussianKL(2.0),
    bias_regularizer=regularizers.GaussianKL(0.5),
    kernel_posterior=layers.MeanFieldPosterior(0.3),
    bias_posterior=layers.MeanFieldPosterior(0.4),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "input_shape", [(7,), pytest.param((3, 7), marks=pytest.mark.slow)]
)
def test_it_keeps_the_contract_of_the_layers(input_shape):
    layer_contract.check_layer(
        make,
        input_shape,
        keras.layers.Dense,
        under_xla=len(input_shape) == 2,
    )


def test_examples_are_uncorrelated():
    x = np.repeat(dense_draws.INPUTS[1:2], 3, axis=0)
    draws = dense_draws.draw(layers.DenseFlipout, x)
    statistics.assert_mean(
        dense_draws.standardized_products(draws, x), np.eye(3), resolves=0.2
    )


@pytest.mark.slow
def test_examples_with_as_many_inputs_as_units_are_uncorrelated():
    # Were the signs of inputs and of outputs the same ones, they would cancel.
    layer = layers.DenseFlipout(
        64,
        use_bias=False,
        kernel_initializer="zeros",
        kernel_posterior=layers.MeanFieldPosterior(1.0),
    )
    x = np.ones([2, 64], "float32")
    y = np.stack([np.asarray(layer(x)) for _ in range(150)]) / 8.0
    products = np.reshape(y[:, 0] * y[:, 1], [-1])  # [150 * 64]
    statistics.assert_mean(products, 0.0, 1.0, resolves=0.15)


def test_an_example_sees_one_draw_of_the_weights_at_all_positions():
    x = dense_draws.INPUTS[None]  # [1, T, 3]
    draws = dense_draws.draw(layers.DenseFlipout, x)[:, 0]
    statistics.assert_mean(
        dense_draws.standardized_products(draws),
        dense_draws.correlation(),
        resolves=0.15,
    )


def test_two_units_of_an_example_are_independent():
    draws = dense_draws.draw(layers.DenseFlipout)
    z = (draws - dense_draws.mean()) / np.sqrt(
        np.diag(dense_draws.covariance())
    )
    pairs = z[::2] * z[1::2]  # [S / 2, B]
    statistics.assert_mean(pairs, 0.0, 1.0, resolves=0.15)
    statistics.assert_variance(pairs, 1.0, resolves_ratio=1.6, kurtosis=9.0)
    # A Gaussian, not only its first two moments.
    statistics.assert_mean(z**4, 3.0, np.sqrt(96.0), resolves=1.0)


def _signs(**arguments):
    """Returns the noise of 4000 examples, `[4000, T=2, U=3]`, scaled to 1."""
    layer = layers.DenseFlipout(
        3, kernel_initializer="zeros", seed=2, **arguments
    )
    y = np.asarray(layer(np.ones([4000, 2, 1], "float32")))
    return y / np.abs(y[0, 0])


@pytest.mark.parametrize(
    "arguments",
    [
        {"kernel_posterior": layers.MeanFieldPosterior(1.0), "use_bias": False},
        {"kernel_posterior": None, "bias_posterior": "mean_field"},
    ],
    ids=["kernel", "bias"],
)
def test_examples_differ_by_unbiased_signs_constant_over_positions(arguments):
    signs = _signs(**arguments)
    np.testing.assert_allclose(np.abs(signs), 1.0, rtol=1e-5)
    np.testing.assert_array_equal(signs[:, 0], signs[:, 1])
    signs = signs[:, 0]
    statistics.assert_mean(signs, 0.0, 1.0, resolves=0.25)
    # Between units, and from one example to the next.
    for first, second in (
        (signs[:, 0], signs[:, 1]),
        (signs[:, 1], signs[:, 2]),
        (signs[1:, 0], signs[:-1, 0]),
    ):
        statistics.assert_mean(first * second, 0.0, 1.0, resolves=0.25)


def test_kernel_and_bias_are_flipped_together():
    # One joint deviation `x * kernel + bias`, so two sizes of the noise: with
    # and without the input's sign flipped.
    layer = layers.DenseFlipout(
        1,
        kernel_initializer="zeros",
        kernel_posterior=layers.MeanFieldPosterior(1.0),
        bias_posterior=layers.MeanFieldPosterior(0.5),
    )
    y = np.asarray(layer(np.ones([4000, 1], "float32")))[:, 0]
    sizes, counts = np.unique(np.round(np.abs(y), 4), return_counts=True)
    assert len(sizes) == 2
    larger = np.where(np.abs(y) > np.mean(sizes), 1.0, -1.0)
    statistics.assert_mean(larger, 0.0, 1.0, resolves=0.25)
    for size in sizes:
        here = y[np.isclose(np.abs(y), size, atol=1e-3)]
        statistics.assert_mean(np.sign(here), 0.0, 1.0, resolves=0.35)
    assert np.sum(counts) == 4000
