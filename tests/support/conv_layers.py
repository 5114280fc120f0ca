"""The convolutional layers, told apart as little as can be."""

import re

import pytest

from tfp_refine import layers

CONVOLUTIONS = (
    layers.Conv1DReparameterization,
    layers.Conv1DLocalReparameterization,
    layers.Conv1DFlipout,
    layers.Conv2DReparameterization,
    layers.Conv2DFlipout,
    layers.Conv2DLocalReparameterization,
    layers.Conv3DReparameterization,
    layers.Conv3DLocalReparameterization,
    layers.Conv3DFlipout,
)
TRANSPOSED = (
    layers.Conv1DTransposeFlipout,
    layers.Conv2DTransposeFlipout,
    layers.Conv3DTransposeFlipout,
)
DEPTHWISE = (
    layers.DepthwiseConv1DReparameterization,
    layers.DepthwiseConv1DLocalReparameterization,
    layers.DepthwiseConv1DFlipout,
    layers.DepthwiseConv2DReparameterization,
    layers.DepthwiseConv2DLocalReparameterization,
    layers.DepthwiseConv2DFlipout,
)
SEPARABLE = (
    layers.SeparableConv1DReparameterization,
    layers.SeparableConv1DLocalReparameterization,
    layers.SeparableConv1DFlipout,
    layers.SeparableConv2DReparameterization,
    layers.SeparableConv2DLocalReparameterization,
    layers.SeparableConv2DFlipout,
)
# Of one linear map: without the separable ones.
ALL = (*CONVOLUTIONS, *TRANSPOSED, *DEPTHWISE)

every_layer = pytest.mark.parametrize("make_layer", ALL)
every_convolution = pytest.mark.parametrize("make_layer", CONVOLUTIONS)


def layouts(classes):
    """Returns pairs of a class and a `data_format`, but for slow ones."""
    return [
        (make_layer, data_format)
        for make_layer in classes
        for data_format in ("channels_last", "channels_first")
        # Keras compiles each call of the 3D ones.
        if (rank(make_layer), data_format) != (3, "channels_first")
    ]


def rank(make_layer):
    """Returns the number of spatial axes of a class."""
    return int(re.search(r"(\d)D", make_layer.__name__)[1])


def make(make_layer, filters=4, kernel_size=3, **arguments):
    """Returns a layer; `filters` are those of each channel if depthwise."""
    if make_layer in DEPTHWISE:
        arguments["depth_multiplier"] = filters
    else:
        arguments["filters"] = filters
    return make_layer(kernel_size=kernel_size, **arguments)


def twin(layer, input_shape):
    """Returns Keras' own layer with the linear map of `layer`, at its means."""
    same = layer.keras_layer(
        use_bias=False,
        **{name: getattr(layer, name) for name in layer.map_arguments},
    )
    same.build(input_shape)
    same.kernel.assign(layer.kernel)
    return same


every_layout = pytest.mark.parametrize(
    ("make_layer", "data_format"), layouts(ALL)
)
