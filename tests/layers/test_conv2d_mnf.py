import functools

import keras
import numpy as np
import pytest

from tests.support import conv_layers
from tests.support import layer_case
from tests.support import layer_contract
from tests.support import multiplicative_draws
from tfp_refine import functional
from tfp_refine import layers
from tfp_refine import regularizers

make = functools.partial(
    layers.Conv2DMNF,
    filters=4,
    kernel_size=(3, 2),
    strides=2,
    activation="tanh",
    kernel_regularizer=regularizers.GaussianKL(2.0),
    bias_regularizer=regularizers.GaussianKL(0.5),
    bias_posterior=layers.MeanFieldPosterior(0.4),
    flow_length=1,
    flow_units=6,
    auxiliary_flow_length=0,
    masks="alternating",
    auxiliary="paper",
)
SHAPE = (2, 2, 4)
LAYOUTS = {
    "groups": {"groups": 2},
    "channels_first": {"data_format": "channels_first"},
    "groups_and_limit": {"groups": 2, "max_std": 0.7, "strides": (2, 1)},
}
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


@pytest.mark.slow
def test_it_keeps_the_contract_of_the_layers():
    layer_contract.check_layer(
        make,
        (5, 6, 3),
        keras.layers.Conv2D,
        num_weights=11,
        under_xla=False,
    )


def built(layout="groups", **arguments):
    """Returns a layer whose posterior is of order one."""
    layer = layers.Conv2DMNF(
        **{
            "filters": 4,
            "kernel_size": (2, 1),
            "num_train_examples": 10,
            "seed": 1,
            "flow_units": 4,
            "auxiliary_flow_units": 3,
            **LAYOUTS[layout],
            **arguments,
        }
    )
    layer.build((None, *SHAPE))
    return layer_case.spread(layer)


def inputs(num):
    x = np.random.default_rng(4).normal(1.0, 0.7, size=(1, *SHAPE))
    return np.repeat(x, num, axis=0).astype("float32")


def convolution(layer, kernel, x):
    """Applies a kernel, by Keras' own layer."""
    twin = conv_layers.twin(layer, x.shape)
    twin.kernel.assign(kernel)
    return np.asarray(twin(x), "float64")[0]


def moments(layer, one_kernel=False):
    """Returns the moments of the outputs for an example."""
    kernel, bias = layer.variational_weights
    scale = np.asarray(kernel.scale)
    if layer.max_std is not None:
        assert np.min(scale) < layer.max_std < np.max(scale)
        scale = np.minimum(scale, layer.max_std)
    x = inputs(1)
    means = convolution(layer, kernel.loc, x)
    axis = layer.channel_axis - (layer.channel_axis > 0)  # of no batch
    filters = np.moveaxis(
        np.broadcast_to(np.arange(4), np.moveaxis(means, axis, -1).shape),
        -1,
        axis,
    )
    one_hot = np.ravel(filters)[:, None] == np.arange(4)
    if one_kernel:
        covariance = one_hot * np.asarray(bias.scale) ** 2 @ one_hot.T
        for index in np.ndindex(scale.shape):
            one = np.zeros(scale.shape)
            one[index] = scale[index]
            outputs = np.ravel(convolution(layer, one, x))
            covariance = covariance + np.outer(outputs, outputs)
    else:
        covariance = np.ravel(convolution(layer, scale**2, x**2))
        covariance = covariance + one_hot @ np.asarray(bias.scale) ** 2
    return multiplicative_draws.Moments(
        layer,
        np.ravel(means)[:, None] * one_hot,
        one_hot @ np.asarray(bias.loc),
        covariance,
    )


@pytest.mark.slow
@every_layout
def test_filters_are_multiplied_and_biases_are_not(layout):
    layer = built(layout)
    x = inputs(multiplicative_draws.NUM_DRAWS)
    draws = np.reshape(layer(x), (len(x), -1))
    exact = moments(layer)
    exact.check(draws)
    exact.check_examples_are_independent(draws)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["channels_first", "groups_and_limit"])
def test_one_kernel_has_the_moments_of_the_weights(layout):
    layer = built(layout, inference_estimator="reparameterization")
    x = inputs(1)
    draws = multiplicative_draws.repeat(lambda: layer(x), 4000)
    moments(layer, one_kernel=True).check(
        np.reshape(draws, (len(draws), -1)), resolves=0.4
    )


def test_one_kernel_without_a_flow_has_the_moments_of_the_weights():
    layer = built(
        flow_length=0, inference_estimator="reparameterization", max_std=0.7
    )
    kernel = layer.variational_weights[0]
    draws = multiplicative_draws.repeat(
        lambda: kernel.sample(layer.seed_generator, "float32"), 4000
    )
    z = (draws - np.asarray(kernel.loc)) / np.minimum(kernel.scale, 0.7)
    assert np.all(np.abs(np.mean(z, axis=0)) < 7.0 / np.sqrt(len(z)))
    assert np.all(np.abs(np.std(z, axis=0) - 1.0) < 5.0 / np.sqrt(len(z)))


@pytest.mark.slow
@every_layout
@pytest.mark.parametrize("flow_length", [0, 2])
@pytest.mark.parametrize("training", [None, False])
def test_one_kernel_serves_all_positions_and_examples(
    layout, flow_length, training
):
    layer = built(
        layout,
        flow_length=flow_length,
        inference_estimator="reparameterization",
    )
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 1, *SHAPE)).astype("float32")
    x = np.concatenate([a, a, b, a + b, 0 * a])
    outputs = np.asarray(layer(x, training=training))
    np.testing.assert_array_equal(outputs[0], outputs[1])
    zero = outputs[4]
    np.testing.assert_allclose(
        outputs[3] - zero, outputs[0] + outputs[2] - 2 * zero, atol=1e-5
    )
    # The bias is drawn, too, and once.
    zero = np.moveaxis(zero, 0 if layer.channel_axis == 1 else -1, -1)
    np.testing.assert_array_equal(zero, zero[:1, :1] + 0 * zero)
    assert np.all(zero[0, 0] != np.asarray(layer.bias))
    # But each call has a kernel.
    assert layer_case.differ(layer(x, training=training)[:4], outputs[:4])


def test_one_kernel_is_for_inference_alone():
    x = inputs(2)
    local = built()
    layer = built(inference_estimator="reparameterization")
    for training in (True, False):
        functional.seeds.reseed(local, 3)
        functional.seeds.reseed(layer, 3)
        same = np.array_equal(
            local(x, training=training), layer(x, training=training)
        )
        assert same == training
    np.testing.assert_array_equal(
        local(x, sample=False), layer(x, sample=False)
    )
    with layers.mean_weights():
        np.testing.assert_array_equal(local(x), layer(x))
        first = np.asarray(layer(x, sample=True))
        np.testing.assert_array_equal(first[0], first[1])
        assert layer_case.differ(first, layer(x))
    for training in (True, False):
        outputs = np.asarray(local(x, training=training))
        assert layer_case.differ(outputs[0], outputs[1])


def test_one_kernel_is_used_by_predict_and_not_by_fit():
    layer = built(inference_estimator="reparameterization")
    model = keras.Sequential([keras.Input(SHAPE), layer])
    outputs = model.predict(inputs(4), verbose=0)
    expected = outputs[:1] + 0 * outputs
    np.testing.assert_allclose(outputs, expected, rtol=1e-5)
    outputs = np.asarray(model(inputs(4), training=True))
    assert layer_case.differ(outputs[0], outputs[1])


def test_one_kernel_needs_no_bias():
    layer = built(inference_estimator="reparameterization", use_bias=False)
    np.testing.assert_array_equal(layer(0 * inputs(2)), 0.0)


def test_half_precision_draws_one_kernel_in_full():
    layer = built(
        inference_estimator="reparameterization", dtype="mixed_float16"
    )
    full = built(inference_estimator="reparameterization")
    outputs = []
    for either in (layer, full):
        functional.seeds.reseed(either, 3)
        outputs.append(np.asarray(either(inputs(2))))
    assert outputs[0].dtype == "float16"
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=0.02, atol=0.02)


@pytest.mark.parametrize("value", ["flipout", None])
def test_an_estimator_that_is_not_known_is_refused(value):
    with pytest.raises(
        ValueError, match="`inference_estimator` must be one of"
    ):
        layers.Conv2DMNF(2, 3, inference_estimator=value)


def test_it_takes_no_posterior_of_the_kernel():
    with pytest.raises(TypeError, match="unexpected .*'kernel_posterior'"):
        layers.Conv2DMNF(2, 3, kernel_posterior="mean_field")


def test_without_steps_it_is_local_reparameterization():
    layer = built(flow_length=0)
    plain = layers.Conv2DLocalReparameterization(4, (2, 1), groups=2)
    x = inputs(3)
    plain(x)
    plain.set_weights(layer.get_weights())
    for either in (layer, plain):
        functional.seeds.reseed(either, 3)
    np.testing.assert_array_equal(layer(x), plain(x))
