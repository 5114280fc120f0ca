import keras
import numpy as np
import pytest

from tests.support import conv_layers
from tfp_refine import layers

DENSE = (
    layers.DenseReparameterization,
    layers.DenseLocalReparameterization,
    layers.DenseFlipout,
    layers.DenseMNF,
)
CONV1D = (
    layers.Conv1DReparameterization,
    layers.Conv1DFlipout,
    layers.Conv1DLocalReparameterization,
)
CONV2D = (
    layers.Conv2DReparameterization,
    layers.Conv2DFlipout,
    layers.Conv2DLocalReparameterization,
    layers.Conv2DMNF,
)
CONV3D = (layers.Conv3DReparameterization, layers.Conv3DFlipout)

# Of classes, their arguments and the shape of an input.
GROUPS_OF_CASES = (
    (DENSE, {"units": 3}, (5,)),
    (DENSE, {"units": 3, "dtype": "float64"}, (2, 5)),
    (DENSE, {"units": 2}, (2, 3, 4)),
    (CONV1D, {"kernel_size": 3, "strides": 2, "padding": "same"}, (7, 2)),
    (
        CONV1D,
        {"kernel_size": 3, "padding": "causal", "dilation_rate": 2},
        (6, 2),
    ),
    (CONV1D, {"kernel_size": 3, "padding": "causal", "strides": 2}, (6, 2)),
    (CONV1D, {"kernel_size": 2, "groups": 2, "padding": "valid"}, (6, 4)),
    (
        CONV1D,
        {
            "kernel_size": 3,
            "padding": "causal",
            "data_format": "channels_first",
        },
        (2, 6),
    ),
    (CONV2D, {"kernel_size": (3, 2), "strides": (2, 1)}, (5, 4, 2)),
    (
        CONV2D,
        {"kernel_size": (2, 3), "padding": "same", "strides": 2},
        (4, 5, 3),
    ),
    (CONV2D, {"kernel_size": 2, "dilation_rate": (2, 1)}, (4, 4, 2)),
    (
        CONV2D,
        {"kernel_size": (3, 2), "groups": 2, "padding": "same", "strides": 2},
        (4, 3, 6),
    ),
    (CONV2D, {"kernel_size": 1, "strides": 2, "dtype": "float64"}, (4, 3, 3)),
    (
        CONV2D,
        {"kernel_size": 2, "data_format": "channels_first"},
        (3, 4, 3),
    ),
    (
        CONV2D,
        {"kernel_size": 2, "data_format": "channels_first", "groups": 2},
        (4, 3, 3),
    ),
    (
        CONV3D,
        {"kernel_size": (2, 1, 2), "padding": "same", "strides": (1, 2, 1)},
        (2, 3, 2, 2),
    ),
    (CONV3D, {"kernel_size": 2, "dtype": "float64"}, (2, 3, 2, 2)),
    (
        (layers.Conv2DTransposeFlipout,),
        {"kernel_size": (3, 2), "strides": 2, "padding": "same"},
        (2, 3, 2),
    ),
    (
        (layers.Conv2DTransposeFlipout,),
        {"kernel_size": 3, "strides": 2, "output_padding": 1},
        (2, 3, 5),
    ),
    (
        (layers.Conv2DTransposeFlipout,),
        {"kernel_size": 1, "strides": (2, 3), "dtype": "float64"},
        (2, 2, 3),
    ),
    (
        (layers.Conv2DTransposeFlipout,),
        {"kernel_size": 2, "data_format": "channels_first"},
        (3, 2, 4),
    ),
    (
        (layers.Conv1DTransposeFlipout,),
        {"kernel_size": 3, "strides": 2, "dtype": "float64"},
        (4, 2),
    ),
    (
        (layers.Conv3DTransposeFlipout,),
        {"kernel_size": (2, 1, 3), "strides": 2, "dtype": "float64"},
        (2, 1, 2, 3),
    ),
    (
        (
            layers.DepthwiseConv1DFlipout,
            layers.DepthwiseConv1DLocalReparameterization,
        ),
        {"kernel_size": 3, "strides": 2, "dtype": "float64"},
        (6, 3),
    ),
    (
        (layers.DepthwiseConv2DFlipout,),
        {"kernel_size": (2, 3), "padding": "same", "strides": 2},
        (4, 4, 3),
    ),
    (
        (layers.DepthwiseConv2DFlipout,),
        {"kernel_size": 2, "dilation_rate": 2, "dtype": "float64"},
        (4, 4, 2),
    ),
    (
        (layers.DepthwiseConv2DFlipout,),
        {"kernel_size": 2, "data_format": "channels_first"},
        (3, 4, 3),
    ),
)
# No estimator changes the map: the quick tests have one class, each in turn.
CASES = [
    pytest.param(
        make_layer,
        arguments,
        shape,
        marks=[pytest.mark.slow] * (number != i % len(classes)),
        id=f"{make_layer.__name__}-{i}",
    )
    for i, (classes, arguments, shape) in enumerate(GROUPS_OF_CASES)
    for number, make_layer in enumerate(classes)
]
every_case = pytest.mark.parametrize(
    ("make_layer", "arguments", "shape"), CASES
)


def make(make_layer, arguments, shape):
    """Returns a built layer with random means, and inputs of it."""
    if "kernel_size" in arguments:
        layer = conv_layers.make(make_layer, 4, seed=1, **arguments)
    else:
        layer = make_layer(seed=1, **arguments)
    rng = np.random.default_rng(3)
    x = rng.normal(size=(3, *shape)).astype(layer.compute_dtype)
    layer.build(x.shape)
    for weight in layer.variational_weights:
        weight.loc.assign(rng.normal(size=weight.loc.shape))
    return layer, x


def products(patches, columns, num_groups):
    """Multiplies patches and columns, group by group: `[B, P, units]`."""
    blocks = np.split(columns, num_groups, axis=-1)
    return np.concatenate(
        [patches[:, :, g] @ block for g, block in enumerate(blocks)], axis=-1
    )


@pytest.mark.slow
@every_case
def test_products_of_patches_and_columns_are_the_pre_activations(
    make_layer, arguments, shape
):
    layer, x = make(make_layer, arguments, shape)
    patches = np.asarray(layer.patches(x))
    kernel = layer.variational_weights[0].mean(layer.compute_dtype)
    columns = np.asarray(layer.columns(kernel))
    # The bias, which is not zero, has to be added by hand.
    outputs = np.moveaxis(layer.mean_outputs(x), layer.channel_axis, -1)
    expected = np.reshape(outputs, (len(x), -1, outputs.shape[-1]))
    num_groups = arguments.get("groups", 1)
    if make_layer in conv_layers.DEPTHWISE:
        num_groups = x.shape[layer.channel_axis]
    assert patches.dtype == x.dtype
    assert layer.num_groups == num_groups
    assert patches.shape == (
        len(x),
        expected.shape[1],
        num_groups,
        len(columns),
    )
    tolerance = 1e-12 if x.dtype == np.float64 else 1e-5
    np.testing.assert_allclose(
        products(patches, columns, num_groups) + np.asarray(layer.bias),
        expected,
        rtol=tolerance,
        atol=tolerance,
    )


@every_case
def test_columns_and_kernels_are_each_others_inverse(
    make_layer, arguments, shape
):
    layer, _ = make(make_layer, arguments, shape)
    columns = layer.columns(layer.kernel)
    units = layer.bias.shape[0]
    fan_in = np.prod(layer.kernel.shape) // units
    assert columns.shape == (fan_in, units)
    np.testing.assert_array_equal(layer.kernel_of(columns), layer.kernel)
    other = np.random.default_rng(4).normal(size=columns.shape)
    np.testing.assert_array_equal(layer.columns(layer.kernel_of(other)), other)


def test_a_kernel_can_be_made_of_columns_of_more_units(rng):
    layer, _ = make(
        layers.Conv2DTransposeFlipout, {"kernel_size": 2}, (2, 2, 3)
    )
    columns = rng.normal(size=(12, 7))
    kernel = np.asarray(layer.kernel_of(columns))
    assert kernel.shape == (2, 2, 7, 3)
    expected = np.reshape(columns, (2, 2, 3, 7)).swapaxes(2, 3)
    np.testing.assert_array_equal(kernel, expected)


def test_patches_of_a_valid_convolution_are_cut_out_of_the_image():
    layer, x = make(
        layers.Conv2DFlipout, {"kernel_size": (2, 3), "strides": 2}, (5, 6, 2)
    )
    cut = [
        np.reshape(x[:, i : i + 2, j : j + 3], (len(x), -1))
        for i in (0, 2)
        for j in (0, 2)
    ]
    found = np.asarray(layer.patches(x))[:, :, 0]
    np.testing.assert_allclose(found, np.stack(cut, axis=1), rtol=1e-6)


def test_a_dense_layer_has_a_patch_for_each_step(rng):
    layer = layers.DenseFlipout(2)
    x = rng.normal(size=(3, 4, 5)).astype("float32")
    layer.build(x.shape)
    patches = layer.patches(x)
    assert patches.shape == (3, 4, 1, 5)
    np.testing.assert_array_equal(keras.ops.squeeze(patches, 2), x)
