import keras
import numpy as np
import pytest

from tests.support import conv_draws
from tests.support import conv_layers
from tests.support import statistics
from tfp_refine import layers

CASES = {
    "conv1d_reparameterization_causal": (
        layers.Conv1DReparameterization,
        (6, 2),
        {"kernel_size": 3, "padding": "causal", "dilation_rate": 2},
    ),
    "conv1d_flipout_strided": (
        layers.Conv1DFlipout,
        (7, 2),
        {"kernel_size": 3, "padding": "same", "strides": 2},
    ),
    "conv2d_reparameterization_channels_first": (
        layers.Conv2DReparameterization,
        (2, 4, 3),
        {"kernel_size": 2, "data_format": "channels_first"},
    ),
    "conv2d_flipout_groups": (
        layers.Conv2DFlipout,
        (3, 4, 4),
        {"kernel_size": (3, 2), "padding": "same", "strides": 2, "groups": 2},
    ),
    "conv2d_flipout_channels_first": (
        layers.Conv2DFlipout,
        (2, 4, 3),
        {"kernel_size": (2, 3), "data_format": "channels_first"},
    ),
    "conv2d_local_reparameterization_dilated": (
        layers.Conv2DLocalReparameterization,
        (4, 4, 2),
        {"kernel_size": (2, 3), "padding": "valid", "dilation_rate": (2, 1)},
    ),
    "conv2d_local_reparameterization_channels_first": (
        layers.Conv2DLocalReparameterization,
        (2, 3, 3),
        {"kernel_size": 2, "data_format": "channels_first"},
    ),
    "conv1d_local_reparameterization": (
        layers.Conv1DLocalReparameterization,
        (6, 4),
        {"kernel_size": 3, "padding": "causal", "groups": 2},
    ),
    "conv3d_local_reparameterization": (
        layers.Conv3DLocalReparameterization,
        (2, 3, 2, 2),
        {"kernel_size": 2, "padding": "same", "strides": (1, 2, 1)},
    ),
    "conv3d_reparameterization": (
        layers.Conv3DReparameterization,
        (2, 3, 2, 2),
        {"kernel_size": 2, "padding": "same", "strides": (1, 2, 1)},
    ),
    "conv3d_flipout": (
        layers.Conv3DFlipout,
        (2, 3, 2, 2),
        {"kernel_size": (2, 1, 2), "padding": "valid"},
    ),
    "conv2d_flipout_1x1_strided": (
        layers.Conv2DFlipout,
        (3, 4, 3),
        {"kernel_size": 1, "strides": 2},
    ),
    "conv2d_transpose_flipout": (
        layers.Conv2DTransposeFlipout,
        (2, 1, 2),
        {
            "kernel_size": 3,
            "padding": "same",
            "strides": 2,
            "output_padding": 1,
        },
    ),
    "conv2d_transpose_flipout_1x1_strided": (
        layers.Conv2DTransposeFlipout,
        (2, 1, 2),
        {"kernel_size": 1, "strides": (2, 3)},
    ),
    "conv1d_transpose_flipout": (
        layers.Conv1DTransposeFlipout,
        (3, 2),
        {"kernel_size": 3, "strides": 2},
    ),
    "conv3d_transpose_flipout": (
        layers.Conv3DTransposeFlipout,
        (1, 2, 1, 2),
        {"kernel_size": (2, 1, 2), "strides": (1, 2, 1), "padding": "same"},
    ),
    "depthwise_conv1d_flipout": (
        layers.DepthwiseConv1DFlipout,
        (4, 2),
        {"kernel_size": 3, "padding": "same"},
    ),
    "depthwise_conv1d_local_reparameterization": (
        layers.DepthwiseConv1DLocalReparameterization,
        (4, 2),
        {"kernel_size": 3, "padding": "same"},
    ),
    "depthwise_conv2d_local_reparameterization": (
        layers.DepthwiseConv2DLocalReparameterization,
        (2, 3, 4),
        {"kernel_size": 2, "data_format": "channels_first"},
    ),
    "depthwise_conv2d_reparameterization": (
        layers.DepthwiseConv2DReparameterization,
        (3, 4, 2),
        {"kernel_size": 2, "padding": "same", "strides": 2},
    ),
    "depthwise_conv2d_flipout": (
        layers.DepthwiseConv2DFlipout,
        (3, 4, 2),
        {"kernel_size": 2, "padding": "same", "strides": 2},
    ),
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    """A class of layers, and draws of its outputs."""
    keras.utils.set_random_seed(0)
    make_layer, input_shape, arguments = CASES[request.param]
    return make_layer, conv_draws.draw(
        make_layer, input_shape, seed=3, num_train_examples=1, **arguments
    )


def _is_local(make_layer):
    return "Local" in make_layer.__name__


def test_each_output_has_the_exact_mean_and_variance(case):
    _, it = case
    stddev = np.sqrt(it.variance)
    statistics.assert_mean(it.draws, it.mean, stddev, resolves=0.1 * stddev)
    statistics.assert_variance(it.draws, it.variance, resolves_ratio=1.15)


def test_outputs_share_a_draw_of_the_weights_as_the_estimator_says(case):
    make_layer, it = case
    if _is_local(make_layer):  # each output is drawn by itself
        expected = np.eye(it.mean.shape[1])
    elif "Flipout" in make_layer.__name__:  # one draw for each example
        expected = it.correlation * it.same_example
    else:  # one draw for the batch
        expected = it.correlation
    statistics.assert_mean(
        it.standardized_products(),
        np.broadcast_to(expected, it.correlation.shape),
        resolves=0.17,
    )


def test_sums_over_space_vary_as_with_weight_sampling_unless_drawn_locally(
    case,
):
    make_layer, it = case
    num_groups, num = it.mean.shape
    blocks = np.reshape(it.covariance, (num_groups, 2, num // 2, 2, num // 2))
    sampled = np.stack([blocks[:, b, :, b] for b in (0, 1)], axis=1)
    sampled = np.sum(sampled, axis=(2, 3))  # [G, 2]
    local = np.sum(np.reshape(it.variance, (num_groups, 2, -1)), axis=2)
    # Else both would pass.
    assert np.all(np.max(np.abs(np.log(sampled / local)), axis=1) > 0.3)
    statistics.assert_variance(
        it.sums_over_space(),
        local if _is_local(make_layer) else sampled,
        resolves_ratio=1.15,
    )


@pytest.mark.parametrize(
    "make_layer", [kind for kind in conv_layers.ALL if _is_local(kind)]
)
def test_a_local_draw_is_documented_to_ignore_what_positions_share(make_layer):
    documentation = make_layer.__doc__
    assert "positions of one example are drawn independently" in documentation
    other = make_layer.__name__.replace("LocalReparameterization", "Flipout")
    assert f"`{other}`" in documentation


@conv_layers.every_layer
@pytest.mark.parametrize("point", ["kernel", "bias"])
def test_a_point_estimate_adds_no_variance(make_layer, point):
    rank = conv_layers.rank(make_layer)
    layer = conv_layers.make(
        make_layer,
        conv_draws.NUM_DRAWS,
        kernel_size=1,
        seed=5,
        **{
            "kernel_posterior": layers.MeanFieldPosterior(0.5),
            "bias_posterior": layers.MeanFieldPosterior(0.8),
            f"{point}_posterior": None,
        },
    )
    x = np.full([1] * (rank + 2), 1.5, "float32")
    layer.build(x.shape)
    layer.kernel.assign(np.ones(layer.kernel.shape))
    draws = np.ravel(layer(x)).astype("float64")
    stddev = {"bias": 0.5 * 1.5, "kernel": 0.8}[point]
    statistics.assert_mean(draws, 1.5, stddev, resolves=0.1 * stddev)
    statistics.assert_variance(draws, stddev**2, resolves_ratio=1.15)


_DENSE = {
    "Flipout": layers.DenseFlipout,
    "LocalReparameterization": layers.DenseLocalReparameterization,
    "Reparameterization": layers.DenseReparameterization,
}


@conv_layers.every_convolution
@pytest.mark.parametrize("sample", [True, False])
def test_a_1x1_convolution_of_a_1x1_image_is_the_dense_layer(
    make_layer, sample, rng
):
    x = rng.normal(size=(5, 7)).astype("float32")
    estimator = make_layer.__name__.split("D", 1)[1]
    layer = make_layer(3, 1, seed=4)
    dense = _DENSE[estimator](3, seed=4)
    image = np.reshape(x, (5, *[1] * conv_layers.rank(make_layer), 7))
    for each, inputs in ((layer, image), (dense, x)):
        each.build(inputs.shape)
    for ours, theirs in zip(
        layer.variational_weights, dense.variational_weights, strict=True
    ):
        loc = rng.normal(size=theirs.loc.shape)
        scale = rng.uniform(0.5, 1.0, size=theirs.loc.shape)
        theirs.assign(loc=loc, scale=scale)
        shape = ours.loc.shape
        ours.assign(loc=np.reshape(loc, shape), scale=np.reshape(scale, shape))
    outputs = np.reshape(layer(image, sample=sample), (5, 3))
    expected = dense(x, sample=sample)
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("strides", [1, 2])
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("dilation_rate", [1, 2])
@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_causal_outputs_see_the_past_only(
    strides, size, dilation_rate, data_format, rng
):
    if strides > 1 and dilation_rate > 1:
        return
    layer = layers.Conv1DFlipout(
        2,
        size,
        strides,
        "causal",
        data_format=data_format,
        dilation_rate=dilation_rate,
        seed=1,
    )
    x = rng.normal(size=(1, 8, 3)).astype("float32")
    later = np.array(x)
    later[:, 5:] += 1.0
    if data_format == "channels_first":
        x, later = np.swapaxes(x, 1, 2), np.swapaxes(later, 1, 2)
    axis = 2 if data_format == "channels_first" else 1
    changes = np.any(
        np.abs(layer(x, sample=False) - layer(later, sample=False)) > 1e-6,
        axis=(0, 3 - axis),
    )
    np.testing.assert_array_equal(changes, np.arange(0, 8, strides) >= 5)


@pytest.mark.slow
@conv_layers.every_layout
def test_images_of_any_size_pass_through_one_model(
    make_layer, data_format, rng
):
    rank = conv_layers.rank(make_layer)
    last = data_format == "channels_last"
    unknown = [None] * rank
    inputs = keras.Input((*unknown, 2) if last else (2, *unknown))
    layer = conv_layers.make(
        make_layer, kernel_size=2, data_format=data_format, seed=1
    )
    model = keras.Model(inputs, layer(inputs))
    assert model.output_shape == layer.compute_output_shape(inputs.shape)
    for batch, size in ((3, 5), (1, 4)):
        space = [size] * rank
        x = rng.normal(
            size=(batch, *space, 2) if last else (batch, 2, *space)
        ).astype("float32")
        outputs = model.predict(x, verbose=0)
        assert outputs.shape == layer.compute_output_shape(x.shape)
        assert np.all(np.isfinite(outputs))
