"""Layers that the quick tests of the contract do not train under XLA."""

import functools

import keras
import pytest

from tests.support import layer_contract
from tfp_refine import layers

_COMMON = {
    "activation": "tanh",
    "kernel_posterior": layers.MeanFieldPosterior(0.3),
    "bias_posterior": layers.MeanFieldPosterior(0.4),
}
_TRANSPOSED = {
    "filters": 4,
    "kernel_size": 3,
    "strides": 2,
    "padding": "same",
    "output_padding": 1,
}

_DEPTHWISE = {
    "kernel_size": 3,
    "strides": 2,
    "padding": "same",
    "depth_multiplier": 2,
    "data_format": "channels_first",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make_layer", "arguments", "input_shape", "reference"),
    [
        (layers.DenseFlipout, {"units": 4}, (7,), keras.layers.Dense),
        (
            layers.DenseReparameterization,
            {"units": 4},
            (7,),
            keras.layers.Dense,
        ),
        (
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
        ),
        (
            layers.Conv1DFlipout,
            {
                "filters": 4,
                "kernel_size": 3,
                "padding": "causal",
                "dilation_rate": 2,
            },
            (7, 3),
            keras.layers.Conv1D,
        ),
        (
            layers.Conv2DReparameterization,
            {
                "filters": 4,
                "kernel_size": (2, 3),
                "padding": "same",
                "dilation_rate": (1, 2),
            },
            (4, 5, 3),
            keras.layers.Conv2D,
        ),
        (
            layers.Conv2DLocalReparameterization,
            {"filters": 4, "kernel_size": (3, 2), "strides": 2},
            (5, 6, 3),
            keras.layers.Conv2D,
        ),
        (
            layers.Conv2DFlipout,
            {
                "filters": 4,
                "kernel_size": 3,
                "strides": (2, 1),
                "padding": "same",
            },
            (4, 5, 3),
            keras.layers.Conv2D,
        ),
        (
            layers.EinsumDenseFlipout,
            {
                "equation": "abcd,cde->abe",
                "output_shape": (3, 4),
                "bias_axes": "e",
            },
            (3, 2, 3),
            keras.layers.EinsumDense,
        ),
        (
            layers.Conv3DReparameterization,
            {"filters": 3, "kernel_size": 2, "strides": (1, 2, 1)},
            (3, 4, 3, 2),
            keras.layers.Conv3D,
        ),
        (
            layers.Conv3DFlipout,
            {
                "filters": 3,
                "kernel_size": (1, 2, 2),
                "padding": "same",
                "dilation_rate": (1, 1, 2),
            },
            (2, 3, 3, 2),
            keras.layers.Conv3D,
        ),
        (
            layers.Conv1DTransposeFlipout,
            _TRANSPOSED,
            (4, 3),
            keras.layers.Conv1DTranspose,
        ),
        (
            layers.Conv2DTransposeFlipout,
            _TRANSPOSED,
            (3, 2, 3),
            keras.layers.Conv2DTranspose,
        ),
        (
            layers.Conv3DTransposeFlipout,
            _TRANSPOSED,
            (3, 2, 1, 3),
            keras.layers.Conv3DTranspose,
        ),
        (
            layers.DepthwiseConv2DLocalReparameterization,
            _DEPTHWISE,
            (3, 5, 6),
            keras.layers.DepthwiseConv2D,
        ),
        (
            layers.DepthwiseConv1DFlipout,
            _DEPTHWISE,
            (3, 5),
            keras.layers.DepthwiseConv1D,
        ),
        (
            layers.DepthwiseConv2DFlipout,
            _DEPTHWISE,
            (3, 5, 6),
            keras.layers.DepthwiseConv2D,
        ),
    ],
)
def test_it_trains_under_xla(make_layer, arguments, input_shape, reference):
    layer_contract.check_training_under_xla(
        functools.partial(make_layer, **_COMMON, **arguments),
        input_shape,
        reference,
    )


@pytest.mark.slow
def test_multiplicative_convolutions_train_under_xla():
    layer_contract.check_training_under_xla(
        functools.partial(
            layers.Conv2DMNF,
            filters=4,
            kernel_size=(3, 2),
            strides=2,
            activation="tanh",
            bias_posterior=layers.MeanFieldPosterior(0.4),
            flow_length=1,
            flow_units=6,
            auxiliary_flow_length=0,
            masks="alternating",
            auxiliary="paper",
        ),
        (5, 6, 3),
        keras.layers.Conv2D,
    )
