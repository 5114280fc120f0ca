import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import dense_draws
from tests.support import layer_contract
from tests.support import statistics
from tfp_refine import layers
from tfp_refine import regularizers

make = functools.partial(
    layers.DenseLocalReparameterization,
    4,
    activation="tanh",
    kernel_regularizer=regularizers.GaussianKL(2.0),
    bias_regularizer=regularizers.GaussianKL(0.5),
    kernel_posterior=layers.MeanFieldPosterior(0.3),
    bias_posterior=layers.MeanFieldPosterior(0.4),
)


@pytest.mark.slow
def test_it_keeps_the_contract_of_the_layers():
    layer_contract.check_layer(make, (3, 7), keras.layers.Dense)


def test_examples_are_independent():
    x = np.repeat(dense_draws.INPUTS[1:2], 3, axis=0)
    draws = dense_draws.draw(layers.DenseLocalReparameterization, x)
    products = dense_draws.standardized_products(draws, x)
    statistics.assert_mean(products, np.eye(3), resolves=0.15)
    # Squares too: not even the size of the noise is shared.
    squares = np.square(products)[:, [0, 0, 1], [1, 2, 2]]
    statistics.assert_mean(squares, 1.0, resolves=0.5)


def test_positions_of_an_example_are_independent():
    x = dense_draws.INPUTS[None]  # [1, T, 3]
    draws = dense_draws.draw(layers.DenseLocalReparameterization, x)[:, 0]
    statistics.assert_mean(
        dense_draws.standardized_products(draws), np.eye(3), resolves=0.15
    )


def test_gradients_are_finite_where_there_is_no_variance():
    layer = layers.DenseLocalReparameterization(2, use_bias=False)
    x = tf.zeros([3, 4])
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(layer(x))
    weights = [v.value for v in layer.trainable_variables]
    for gradient in tape.gradient(loss, [x, *weights]):
        assert np.all(np.isfinite(gradient))


@pytest.mark.parametrize(
    ("x", "scale"), [(1000.0, 1e-4), (1000.0, 1.0), (1.0, 1e-4)]
)
def test_float16_neither_overflows_nor_underflows_on_the_way(x, scale):
    # 1000**2 is infinite in float16, and 1e-4**2 is zero.
    layer = layers.DenseLocalReparameterization(
        dense_draws.NUM_DRAWS,
        use_bias=False,
        kernel_initializer="zeros",
        kernel_posterior=layers.MeanFieldPosterior(scale),
        dtype="mixed_float16",
    )
    draws = np.asarray(layer(np.full([1, 1], x, "float32")), "float64")[0]
    stddev = x * scale
    statistics.assert_mean(draws, 0.0, stddev, resolves=0.1 * stddev)
    statistics.assert_variance(draws, stddev**2, resolves_ratio=1.15)
