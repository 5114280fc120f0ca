import math

import keras
import numpy as np
import pytest

from tests.support import bayesian_linear
from tfp_refine import initializers
from tfp_refine import layers

PRIOR = {"prior_variance": 0.3, "bias_prior_variance": 2.0}
NOISE = 0.5


def model_of(layer, shape):
    """Returns a model with as many outputs as the layer has units."""
    inputs = keras.Input(shape)
    pool = keras.layers.GlobalAveragePooling2D(
        dtype="float64", data_format=layer.data_format
    )
    return keras.Model(inputs, pool(layer(inputs)))


def initialize(model, x, y, **arguments):
    arguments = {
        "patches_per_image": math.inf,
        "task": "regression",
        "noise_variance": NOISE,
        "seed": 0,
        "verbose": False,
        **PRIOR,
        **arguments,
    }
    initializers.IBLM(**arguments)(model, x, y)
    return bayesian_linear.read(model.layers[1])


def cut(x, size, stride):
    """Cuts patches out of images: `[N, P, size, size, C]`."""
    return np.stack(
        [
            x[:, i : i + size, j : j + size]
            for i in range(0, x.shape[1] - size + 1, stride)
            for j in range(0, x.shape[2] - size + 1, stride)
        ],
        axis=1,
    )


def regress(patches, y, noise=NOISE):
    """Regresses the targets of images on all of their patches."""
    num, positions = patches.shape[:2]
    rows = np.reshape(patches, (num * positions, -1))
    prior = [0.3] * rows.shape[1] + [2.0]
    mean, precision = bayesian_linear.posterior(
        bayesian_linear.with_ones(rows),
        np.repeat(y, positions, 0),
        noise,
        prior,
    )
    return mean, bayesian_linear.inverse_diagonals(precision)


def draw(rng, shape, units):
    return (
        bayesian_linear.float32(rng.normal(size=(20, *shape))),
        bayesian_linear.float32(rng.normal(size=(20, units))),
    )


def assert_close(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)


def test_a_1x1_convolution_of_a_1x1_image_is_a_dense_layer(rng):
    x, y = draw(rng, (4,), 3)
    conv = model_of(layers.Conv2DFlipout(3, 1, dtype="float64"), (1, 1, 4))
    found = initialize(conv, x[:, None, None], y)
    expected = initialize(bayesian_linear.dense_model(4, 3), x, y)
    assert_close(found, expected)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(
    "make_layer", [layers.Conv2DReparameterization, layers.Conv2DFlipout]
)
def test_a_convolution_is_a_regression_on_all_patches(make_layer, stride, rng):
    x, y = draw(rng, (5, 4, 2), 3)
    layer = make_layer(3, 2, strides=stride, dtype="float64")
    found = initialize(model_of(layer, (5, 4, 2)), x, y)
    assert_close(found, regress(cut(x, 2, stride), y))


def test_the_kernel_is_that_which_the_layer_convolves_with(rng):
    x, y = draw(rng, (4, 4, 2), 3)
    layer = layers.Conv2DFlipout(3, 2, dtype="float64")
    initialize(model_of(layer, (4, 4, 2)), x, y)
    mean, _ = regress(cut(x, 2, 1), y)
    np.testing.assert_allclose(
        layer.kernel, np.reshape(mean[:-1], (2, 2, 2, 3)), rtol=1e-8, atol=1e-10
    )


def test_channels_may_come_first(rng):
    x, y = draw(rng, (4, 4, 2), 3)
    # TensorFlow has no such convolution of doubles.
    layer = layers.Conv2DFlipout(3, 2, data_format="channels_first")
    images = np.moveaxis(x, -1, 1)
    found = initialize(model_of(layer, (2, 4, 4)), images, y)
    expected = regress(cut(x, 2, 1), y)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_groups_are_regressions_of_their_own(rng):
    x, y = draw(rng, (4, 4, 6), 4)
    layer = layers.Conv2DFlipout(4, 2, groups=2, dtype="float64")
    found = initialize(model_of(layer, (4, 4, 6)), x, y)
    groups = [
        regress(cut(x[..., 3 * g : 3 * g + 3], 2, 1), y[:, 2 * g : 2 * g + 2])
        for g in range(2)
    ]
    expected = [np.hstack(parts) for parts in zip(*groups, strict=True)]
    assert_close(found, expected)


def test_depthwise_convolutions_see_a_channel_each(rng):
    x, y = draw(rng, (4, 4, 2), 6)
    layer = layers.DepthwiseConv2DFlipout(
        2, depth_multiplier=3, dtype="float64"
    )
    found = initialize(model_of(layer, (4, 4, 2)), x, y)
    channels = [
        regress(cut(x[..., c : c + 1], 2, 1), y[:, 3 * c : 3 * c + 3])
        for c in range(2)
    ]
    expected = [np.hstack(parts) for parts in zip(*channels, strict=True)]
    assert_close(found, expected)


def test_a_transposed_convolution_is_a_regression_on_what_it_adds_up(rng):
    x, y = draw(rng, (3, 3, 2), 3)
    layer = layers.Conv2DTransposeFlipout(3, 2, dtype="float64")
    found = initialize(model_of(layer, (3, 3, 2)), x, y)
    # Of the full padding, with the kernel turned around.
    padded = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
    patches = cut(padded, 2, 1)[:, :, ::-1, ::-1]
    assert_close(found, regress(patches, y))


def test_classes_of_images_have_noise_of_their_own_at_all_patches(rng):
    x, _ = draw(rng, (4, 4, 2), 3)
    labels = rng.integers(3, size=20)
    layer = layers.Conv2DFlipout(3, 2, dtype="float64")
    found = initialize(
        model_of(layer, (4, 4, 2)), x, labels, task="classification"
    )
    loc, variance = bayesian_linear.class_targets(np.eye(3)[labels])
    expected = regress(cut(x, 2, 1), loc, np.repeat(variance, 9, axis=0))
    assert_close(found, expected)


@pytest.mark.parametrize(
    ("patches_per_image", "num_rows"), [(1, 1), (4, 4), (9, 9), (100, 9)]
)
def test_some_patches_of_each_image_are_drawn(patches_per_image, num_rows, rng):
    # The same patch at all positions, so that it does not matter which.
    x = np.broadcast_to(rng.normal(size=(20, 1, 1, 2)), (20, 4, 4, 2))
    x, y = bayesian_linear.float32(x), rng.normal(size=(20, 3))
    y = bayesian_linear.float32(y)
    layer = layers.Conv2DFlipout(3, 2, dtype="float64")
    found = initialize(
        model_of(layer, (4, 4, 2)), x, y, patches_per_image=patches_per_image
    )
    assert_close(found, regress(cut(x, 2, 1)[:, :num_rows], y))


def test_steps_of_a_dense_layer_are_rows(rng):
    x, y = draw(rng, (6, 4), 3)
    inputs = keras.Input((6, 4))
    dense = layers.DenseFlipout(3, dtype="float64")
    pool = keras.layers.GlobalAveragePooling1D(dtype="float64")
    model = keras.Model(inputs, pool(dense(inputs)))
    assert_close(initialize(model, x, y), regress(x, y))
