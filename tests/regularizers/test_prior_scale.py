"""Prior scales by name, which depend on the layer that they are used in."""

import numpy as np
import pytest

from tfp_refine import layers
from tfp_refine import regularizers

# Layer, its arguments, the shape of an input, and the inputs of a unit.
FAN_INS = [
    (layers.DenseReparameterization, {"units": 4}, (6,), 6),
    (layers.DenseFlipout, {"units": 4}, (2, 6), 6),
    (layers.Conv1DFlipout, {"filters": 4, "kernel_size": 3}, (8, 5), 15),
    (
        layers.Conv2DReparameterization,
        {"filters": 4, "kernel_size": (3, 2), "strides": 2},
        (8, 8, 5),
        30,
    ),
    (
        layers.Conv2DLocalReparameterization,
        {"filters": 4, "kernel_size": (3, 2), "data_format": "channels_first"},
        (5, 8, 8),
        30,
    ),
    (
        layers.Conv2DFlipout,
        {"filters": 4, "kernel_size": (3, 2), "groups": 2},
        (8, 8, 6),
        18,
    ),
    (layers.Conv3DFlipout, {"filters": 4, "kernel_size": 2}, (8, 8, 8, 5), 40),
    (
        layers.Conv2DTransposeFlipout,
        {"filters": 4, "kernel_size": (3, 2)},
        (8, 8, 5),
        30,
    ),
    (
        layers.DepthwiseConv2DFlipout,
        {"kernel_size": (3, 2), "depth_multiplier": 2},
        (8, 8, 5),
        6,
    ),
]

every_layer = pytest.mark.parametrize(
    ("make_layer", "arguments", "input_shape", "fan_in"),
    FAN_INS,
    ids=lambda value: getattr(value, "__name__", None),
)

every_maker = pytest.mark.parametrize(
    "make",
    [
        regularizers.GaussianKL,
        lambda prior_scale: regularizers.CollapsedMeanKL(0.5, prior_scale),
    ],
    ids=["gaussian", "collapsed_mean"],
)


def prior_scales(make_layer, arguments, input_shape, regularizer, **others):
    """Returns the prior scales of the weights that have a posterior."""
    name = "kernel_regularizer"
    if make_layer is layers.DepthwiseConv2DFlipout:
        name = "depthwise_regularizer"
    layer = make_layer(
        **arguments,
        **{name: regularizer, "bias_regularizer": regularizer},
        **others,
        dtype="float64",
    )
    layer.build((None, *input_shape))
    return [float(weight.prior.scale) for weight in layer.variational_weights]


@every_layer
@pytest.mark.parametrize(("name", "gain"), [("fan_in", 1.0), ("he", 2.0)])
def test_a_name_stands_for_the_inputs_of_a_unit(
    make_layer, arguments, input_shape, fan_in, name, gain
):
    found = prior_scales(
        make_layer, arguments, input_shape, regularizers.GaussianKL(name)
    )
    # The bias has the fan-in of its kernel.
    np.testing.assert_allclose(found, [(gain / fan_in) ** 0.5] * 2, rtol=1e-14)


@every_layer
def test_collapsed_means_widen_the_prior_that_a_name_stands_for(
    make_layer, arguments, input_shape, fan_in
):
    regularizer = regularizers.CollapsedMeanKL(0.05)
    assert regularizer.get_config()["prior_scale"] == "fan_in"
    found = prior_scales(make_layer, arguments, input_shape, regularizer)
    expected = [(1.0 / fan_in / 0.05) ** 0.5] * 2
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_a_bias_has_the_fan_in_of_a_kernel_without_posterior():
    found = prior_scales(
        layers.DenseFlipout,
        {"units": 4},
        (6,),
        regularizers.GaussianKL("fan_in"),
        kernel_posterior=None,
    )
    np.testing.assert_allclose(found, [6**-0.5], rtol=1e-14)


@every_maker
def test_one_object_serves_layers_of_any_width(make):
    regularizer = make("he")
    for width in (2, 50, 2):
        layer = layers.DenseFlipout(
            3, use_bias=False, kernel_regularizer=regularizer
        )
        layer.build((None, width))
        found = layer.variational_weights[0].regularizer
        np.testing.assert_allclose(
            found.prior_scale, (2.0 / width) ** 0.5, rtol=1e-14
        )
    # Nor does the object or its layer's config remember any of them.
    assert regularizer.prior_scale == "he"
    assert layer.kernel_regularizer is regularizer


@every_maker
def test_a_number_does_not_depend_on_the_fan_in(make, rng):
    loc, scale = rng.normal(size=4), rng.uniform(0.1, 1.0, size=4)
    regularizer = make(0.3)
    assert regularizer.for_fan_in(7)(loc, scale) == regularizer(loc, scale)


@pytest.mark.parametrize(
    "regularizer",
    [
        regularizers.GaussianKL("he"),
        regularizers.CollapsedMeanKL(prior_scale="he"),
        regularizers.CollapsedMeanKL(prior_scale="he", learn="closed_form"),
    ],
)
def test_a_name_needs_a_fan_in(regularizer):
    with pytest.raises(ValueError, match="'he' depends on .* `for_fan_in`"):
        regularizer(np.zeros(3), np.ones(3))
    assert np.isfinite(regularizer.for_fan_in(3)(np.ones(3), np.ones(3)))


@pytest.mark.parametrize("name", ["1.0", "fan_out", "", "FAN_IN"])
@every_maker
def test_an_unknown_name_is_rejected(make, name):
    message = r"`prior_scale` must be .*'fan_in', 'he'.*Received: prior_scale="
    with pytest.raises(ValueError, match=message):
        make(name)


@pytest.mark.parametrize("value", [5e-324, 1e-200, 1e-39, 1e39, 1e200])
@pytest.mark.parametrize(
    ("regularizer", "name"),
    [
        (regularizers.GaussianKL, "prior_scale"),
        (regularizers.EmpiricalBayesKL, "initial_prior_scale"),
        (regularizers.ScaleMixtureKL, "scale_1"),
        (regularizers.ScaleMixtureKL, "scale_2"),
        (regularizers.CollapsedMeanKL, "prior_scale"),
        (regularizers.CollapsedMeanKL, "alpha_reg"),
        (regularizers.CollapsedVarianceKL, "rate"),
        (regularizers.CollapsedVarianceKL, "shape"),
        (regularizers.CollapsedMeanVarianceKL, "rate"),
    ],
)
def test_numbers_whose_squares_float32_cannot_hold_are_refused(
    regularizer, name, value
):
    with pytest.raises(ValueError, match=f"`{name}` must be.*Received: {name}"):
        regularizer(**{name: value})


@pytest.mark.parametrize("value", [1e-18, 1e18])
def test_the_smallest_and_the_largest_scale_have_a_finite_divergence(value):
    layer = layers.DenseReparameterization(
        3,
        kernel_regularizer=regularizers.GaussianKL(value),
        num_train_examples=1,
    )
    layer(np.ones((1, 2), np.float32))
    assert np.isfinite(sum(float(loss) for loss in layer.losses))
