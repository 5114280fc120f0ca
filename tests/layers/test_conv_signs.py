import numpy as np
import pytest

from tests.support import conv_layers
from tests.support import statistics
from tfp_refine import layers

FLIPOUTS = [cls for cls in conv_layers.ALL if "Flipout" in cls.__name__]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make_layer", "data_format"), conv_layers.layouts(FLIPOUTS)
)
@pytest.mark.parametrize("posterior", ["kernel", "bias"])
def test_examples_differ_by_unbiased_signs_constant_over_space(
    make_layer, data_format, posterior, rng
):
    rank = conv_layers.rank(make_layer)
    layer = conv_layers.make(
        make_layer,
        3,
        kernel_size=2,
        seed=2,
        data_format=data_format,
        use_bias=posterior == "bias",
        kernel_posterior=None if posterior == "bias" else "mean_field",
    )
    space = (4, 3, 2)[:rank]
    shape = (1, *space, 1) if data_format == "channels_last" else (1, 1, *space)
    x = rng.normal(size=shape).astype("float32")
    x = np.repeat(x, 4000, axis=0)
    layer.build(x.shape)
    layer.kernel.assign(np.zeros(layer.kernel.shape))
    y = np.asarray(layer(x))  # one input channel: 3 outputs
    signs = y / y[:1]
    np.testing.assert_allclose(np.abs(signs), 1.0, rtol=1e-3)
    if data_format == "channels_first":
        signs = np.moveaxis(signs, 1, -1)
    signs = np.sign(np.reshape(signs, (4000, -1, 3)))
    assert signs.shape[1] > 1
    np.testing.assert_array_equal(signs, signs[:, :1] + 0.0 * signs)
    signs = signs[1:, 0]
    statistics.assert_mean(signs, 0.0, 1.0, resolves=0.25)
    # Between channels, and from one example to the next.
    for first, second in (
        (signs[:, 0], signs[:, 1]),
        (signs[:, 1], signs[:, 2]),
        (signs[:, 0], signs[:, 2]),
        (signs[1:, 0], signs[:-1, 0]),
    ):
        statistics.assert_mean(first * second, 0.0, 1.0, resolves=0.25)


@pytest.mark.parametrize(
    "make_layer",
    [layers.Conv1DFlipout, layers.Conv2DFlipout, *conv_layers.TRANSPOSED],
)
def test_each_input_channel_has_a_sign_of_its_own(make_layer):
    # Two channels, so two sizes of the noise: with equal and unequal signs.
    layer = make_layer(1, 1, use_bias=False, kernel_initializer="zeros", seed=2)
    shape = [4000] + [2] * (conv_layers.rank(make_layer) + 1)
    y = np.asarray(layer(np.ones(shape, "float32")))
    y = np.reshape(y, [4000, -1])
    np.testing.assert_array_equal(y, y[:, :1] + 0.0 * y)
    sizes = np.abs(y[:, 0])
    larger = np.where(sizes > (np.min(sizes) + np.max(sizes)) / 2, 1.0, -1.0)
    assert np.std(sizes[larger == 1]) < 1e-3 * np.max(sizes)
    assert np.std(sizes[larger == -1]) < 1e-3 * np.max(sizes)
    statistics.assert_mean(larger, 0.0, 1.0, resolves=0.25)
    statistics.assert_mean(larger * np.sign(y[:, 0]), 0.0, 1.0, resolves=0.25)
