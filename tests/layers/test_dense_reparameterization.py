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
    layers.DenseReparameterization,
    4,
    activation="tanh",
    kernel_regularizer=regularizers.GaussianKL(2.0),
    bias_regularizer=regularizers.GaussianKL(0.5),
    kernel_posterior=layers.MeanFieldPosterior(0.3),
    bias_posterior=layers.MeanFieldPosterior(0.4),
)


@pytest.mark.slow
def test_it_keeps_the_contract_of_the_layers():
    layer_contract.check_layer(make, (7,), keras.layers.Dense, under_xla=False)


@pytest.mark.slow
def test_a_learned_prior_keeps_the_contract_too():
    learned = functools.partial(
        make,
        kernel_regularizer=regularizers.EmpiricalBayesKL(),
        bias_regularizer=regularizers.EmpiricalBayesKL(),
    )
    layer_contract.check_layer(
        learned, (3, 7), keras.layers.Dense, num_weights=6
    )


def test_a_batch_shares_one_draw_of_the_weights():
    draws = dense_draws.draw(layers.DenseReparameterization)
    statistics.assert_mean(
        dense_draws.standardized_products(draws),
        dense_draws.correlation(),
        resolves=0.15,
    )


def test_positions_of_an_example_share_one_draw_of_the_weights():
    x = dense_draws.INPUTS[None]  # [1, T, 3]
    draws = dense_draws.draw(layers.DenseReparameterization, x)[:, 0]
    statistics.assert_mean(
        dense_draws.standardized_products(draws),
        dense_draws.correlation(),
        resolves=0.15,
    )


def test_one_call_is_one_linear_function():
    layer = layers.DenseReparameterization(
        3, kernel_posterior=layers.MeanFieldPosterior(1.0)
    )
    x = np.concatenate([np.eye(4), np.zeros([1, 4]), np.ones([1, 4])])
    y = np.asarray(layer(x.astype("float32")))
    bias = y[4]
    np.testing.assert_allclose(
        y[5] - bias, np.sum(y[:4] - bias, axis=0), rtol=1e-5, atol=1e-5
    )


def test_small_noise_is_not_lost_in_half_precision():
    # Near 1, float16 has steps of 1e-3: the sum must be taken before the cast.
    layer = layers.DenseReparameterization(
        dense_draws.NUM_DRAWS,
        use_bias=False,
        kernel_initializer="ones",
        kernel_posterior=layers.MeanFieldPosterior(2e-3),
        dtype="mixed_float16",
    )
    draws = np.asarray(layer(np.ones([1, 1], "float32")), "float64")[0]
    step = 2.0**-10
    # Rounding adds a uniform error of one step; below 1 the steps are halved.
    expected = 2e-3**2 + step**2 / 12 * (1 + 1 / 4) / 2
    statistics.assert_variance(draws, expected, resolves_ratio=1.15)
    statistics.assert_mean(draws, 1.0, resolves=0.2 * 2e-3)
