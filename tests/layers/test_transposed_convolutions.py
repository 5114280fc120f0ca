import functools

import keras
import pytest

from tests.support import layer_contract
from tfp_refine import layers
from tfp_refine import regularizers

_ARGUMENTS = {
    "filters": 4,
    "kernel_size": 3,
    "strides": 2,
    "padding": "same",
    "output_padding": 0,  # not the default of "same"
    "activation": "tanh",
    "kernel_regularizer": regularizers.GaussianKL(2.0),
    "bias_regularizer": regularizers.GaussianKL(0.5),
    "kernel_posterior": layers.MeanFieldPosterior(0.3),
    "bias_posterior": layers.MeanFieldPosterior(0.4),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make_layer", "input_shape", "reference"),
    [
        pytest.param(
            layers.Conv1DTransposeFlipout,
            (4, 3),
            keras.layers.Conv1DTranspose,
            marks=pytest.mark.slow,
        ),
        (
            layers.Conv2DTransposeFlipout,
            (3, 2, 3),
            keras.layers.Conv2DTranspose,
        ),
        pytest.param(
            layers.Conv3DTransposeFlipout,
            (3, 2, 1, 3),
            keras.layers.Conv3DTranspose,
            marks=pytest.mark.slow,
        ),
    ],
)
def test_transposed_convolutions_keep_the_contract_of_the_layers(
    make_layer, input_shape, reference
):
    layer_contract.check_layer(
        functools.partial(make_layer, **_ARGUMENTS),
        input_shape,
        reference,
        under_xla=False,
    )
