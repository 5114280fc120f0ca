import functools

import keras
import pytest

from tests.support import layer_contract
from tfp_refine import layers
from tfp_refine import regularizers

make = functools.partial(
    layers.DepthwiseConv2DFlipout,
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
    layer_contract.check_layer(make, (3, 5, 6), keras.layers.DepthwiseConv2D)


@pytest.mark.parametrize("name", ["initializer", "regularizer", "constraint"])
def test_the_name_of_other_layers_is_pointed_out(name):
    with pytest.raises(ValueError, match=f"takes `depthwise_{name}`"):
        layers.DepthwiseConv2DFlipout(3, **{f"kernel_{name}": None})
