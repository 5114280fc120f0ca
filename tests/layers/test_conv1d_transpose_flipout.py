import functools

import keras

from tests.support import layer_contract
from tfp_refine import layers
from tfp_refine import regularizers

make = functools.partial(
    layers.Conv1DTransposeFlipout,
    filters=4,
    kernel_size=3,
    strides=2,
    padding="same",
    output_padding=1,
    activation="tanh",
    kernel_regularizer=regularizers.GaussianKL(2.0),
    bias_regularizer=regularizers.GaussianKL(0.5),
    kernel_posterior=layers.MeanFieldPosterior(0.3),
    bias_posterior=layers.MeanFieldPosterior(0.4),
)


def test_it_keeps_the_contract_of_the_layers():
    layer_contract.check_layer(make, (4, 3), keras.layers.Conv1DTranspose)
