import functools

import keras
import pytest

from tests.support import layer_contract
from tfp_refine import layers
from tfp_refine import regularizers

_COMMON = {
    "activation": "tanh",
    "kernel_regularizer": regularizers.GaussianKL(2.0),
    "bias_regularizer": regularizers.GaussianKL(0.5),
    "kernel_posterior": layers.MeanFieldPosterior(0.3),
    "bias_posterior": layers.MeanFieldPosterior(0.4),
}


# Quick: one layer; dense ones are tested with the other estimators.
@pytest.mark.parametrize(
    ("make_layer", "arguments", "input_shape", "reference"),
    [
        pytest.param(
            layers.Conv1DReparameterization,
            {
                "filters": 4,
                "kernel_size": 3,
                "strides": 2,
                "padding": "same",
                "groups": 2,
            },
            (5, 4),
            keras.layers.Conv1D,
            marks=pytest.mark.slow,
            id="Conv1DReparameterization",
        ),
        pytest.param(
            layers.Conv1DFlipout,
            {
                "filters": 4,
                "kernel_size": 3,
                "padding": "causal",
                "dilation_rate": 2,
            },
            (7, 3),
            keras.layers.Conv1D,
            marks=pytest.mark.slow,
            id="Conv1DFlipout",
        ),
        pytest.param(
            layers.Conv1DLocalReparameterization,
            {"filters": 4, "kernel_size": 3, "padding": "causal"},
            (7, 3),
            keras.layers.Conv1D,
            marks=pytest.mark.slow,
            id="Conv1DLocalReparameterization",
        ),
        pytest.param(
            layers.Conv3DLocalReparameterization,
            {"filters": 3, "kernel_size": 2, "strides": (1, 2, 1)},
            (3, 4, 3, 2),
            keras.layers.Conv3D,
            marks=pytest.mark.slow,
            id="Conv3DLocalReparameterization",
        ),
        pytest.param(
            layers.Conv2DReparameterization,
            {
                "filters": 4,
                "kernel_size": (2, 3),
                "padding": "same",
                "dilation_rate": (1, 2),
            },
            (4, 5, 3),
            keras.layers.Conv2D,
            marks=pytest.mark.slow,
            id="Conv2DReparameterization",
        ),
        pytest.param(
            layers.Conv2DLocalReparameterization,
            {"filters": 4, "kernel_size": (3, 2), "strides": 2},
            (5, 6, 3),
            keras.layers.Conv2D,
            marks=pytest.mark.slow,
            id="Conv2DLocalReparameterization",
        ),
        pytest.param(
            layers.Conv2DFlipout,
            {
                "filters": 4,
                "kernel_size": 3,
                "strides": (2, 1),
                "padding": "same",
            },
            (4, 5, 3),
            keras.layers.Conv2D,
            id="Conv2DFlipout",
        ),
        pytest.param(
            layers.Conv3DReparameterization,
            {"filters": 3, "kernel_size": 2, "strides": (1, 2, 1)},
            (3, 4, 3, 2),
            keras.layers.Conv3D,
            marks=pytest.mark.slow,
            id="Conv3DReparameterization",
        ),
        pytest.param(
            layers.Conv3DFlipout,
            {
                "filters": 3,
                "kernel_size": (1, 2, 2),
                "padding": "same",
                "dilation_rate": (1, 1, 2),
            },
            (2, 3, 3, 2),
            keras.layers.Conv3D,
            marks=pytest.mark.slow,
            id="Conv3DFlipout",
        ),
    ],
)
def test_convolutions_keep_the_contract_of_the_layers(
    make_layer, arguments, input_shape, reference
):
    layer_contract.check_layer(
        functools.partial(make_layer, **_COMMON, **arguments),
        input_shape,
        reference,
        under_xla=False,
    )
