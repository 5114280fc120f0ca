import functools

import keras

from tests.support import layer_contract
from tfp_refine import layers
from tfp_refine import regularizers

make = functools.partial(
    layers.DepthwiseConv1DFlipout,
    kernel_size=3,
    strides=2,
    padding="same",
    depth_multiplier=2,
    data_format="channels_first",
    activation="tanh",
    depthwise_regularizer=regularizers.GaussianKL(2.0),
    bias_regularizer=regularizers.GaussianKL(0.5),
    kernel_posterior=layers.MeanFieldPosterior(0.3),
    bias_posterior=layers.MeanFieldPosterior(0.4),
)


def test_it_keeps_the_contract_of_the_layers():
    layer_contract.check_layer(make, (3, 5), keras.layers.DepthwiseConv1D)
