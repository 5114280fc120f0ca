import functools

import keras
import pytest

from tests.support import layer_contract
from tfp_refine import layers
from tfp_refine import regularizers

_ARGUMENTS = {
    "kernel_size": 3,
    "strides": 2,
    "padding": "same",
    "depth_multiplier": 2,
    "data_format": "channels_first",
    "activation": "tanh",
    "depthwise_regularizer": regularizers.GaussianKL(2.0),
    "bias_regularizer": regularizers.GaussianKL(0.5),
    "kernel_posterior": layers.MeanFieldPosterior(0.3),
    "bias_posterior": layers.MeanFieldPosterior(0.4),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make_layer", "input_shape", "reference"),
    [
        pytest.param(
            layers.DepthwiseConv1DFlipout,
            (3, 5),
            keras.layers.DepthwiseConv1D,
            marks=pytest.mark.slow,
        ),
        (
            layers.DepthwiseConv2DFlipout,
            (3, 5, 6),
            keras.layers.DepthwiseConv2D,
        ),
        *(
            pytest.param(
                make_layer,
                (3, 5, 6),
                keras.layers.DepthwiseConv2D,
                marks=pytest.mark.slow,
            )
            for make_layer in (
                layers.DepthwiseConv2DReparameterization,
                layers.DepthwiseConv2DLocalReparameterization,
            )
        ),
    ],
)
def test_depthwise_convolutions_keep_the_contract_of_the_layers(
    make_layer, input_shape, reference
):
    layer_contract.check_layer(
        functools.partial(make_layer, **_ARGUMENTS),
        input_shape,
        reference,
        under_xla=False,
    )


@pytest.mark.parametrize("name", ["initializer", "regularizer", "constraint"])
def test_the_kernel_has_the_arguments_of_keras_alone(name):
    with pytest.raises(TypeError, match=f"unexpected .*'kernel_{name}'"):
        layers.DepthwiseConv2DFlipout(3, **{f"kernel_{name}": None})
