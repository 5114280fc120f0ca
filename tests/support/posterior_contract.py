"""The part of the layer contract about posteriors and KL divergences."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import layer_case
from tfp_refine import functional
from tfp_refine import layers


def _variational_weights_say_what_the_layer_does(case):
    layer = case.built()
    kernel, bias = layer.variational_weights
    assert [kernel.name, bias.name] == ["kernel", "bias"]
    assert kernel.loc is layer.kernel
    assert bias.loc is layer.bias
    for weight in (kernel, bias):
        assert weight.scale.shape == weight.loc.shape
        assert np.all(weight.prior.scale > 0.0)
    found = layer_case.total(layer_case.reseeded_losses(layer))
    np.testing.assert_allclose(
        found,
        _kl_of_the_same_draw(layer) / layer_case.NUM_TRAIN_EXAMPLES,
        rtol=1e-6,
    )


def _kl_of_the_same_draw(layer):
    """Computes the parts of `layer_case.reseeded_losses`, nats."""
    functional.seeds.reseed(layer, 3)
    return sum(
        float(weight.kl(seed=layer.seed_generator))
        for weight in layer.variational_weights
    )


def _every_variable_has_a_gradient(case):
    x = case.inputs()
    layer = case.built()
    posterior = [
        variable
        for weight in layer.variational_weights
        for variable in (weight.loc, *weight.scale_weights)
        if "auxiliary" not in variable.name
    ]
    with tf.GradientTape(persistent=True) as tape:
        data_loss = tf.reduce_sum(tf.square(layer(x)))
        # A custom loop adds the losses of the model by itself.
        kl = tf.add_n(case.functional(layer).losses)
    for loss, variables in (
        (data_loss, posterior),
        (kl, layer.trainable_variables),
    ):
        for variable in variables:
            gradient = tape.gradient(loss, variable.value)
            assert gradient is not None, variable.path
            gradient = np.asarray(gradient)
            assert np.all(np.isfinite(gradient)), variable.path
            assert np.any(gradient != 0.0), variable.path


def _means_are_the_keras_layer(case):
    x = case.inputs()
    for changes in ({}, {"use_bias": False}):
        layer = case.built(**changes)
        expected = case.twin(layer)(x)
        silent = case.built(**changes, sample=False)
        with layers.mean_weights():
            in_scope = layer(x)
            override = layer(x, sample=True)
        for outputs in (layer(x, sample=False), in_scope, silent(x)):
            np.testing.assert_allclose(outputs, expected, rtol=1e-6, atol=1e-6)
        for outputs in (layer(x), override, silent(x, sample=True)):
            assert layer_case.differ(outputs, expected)
    assert layer.bias is None
    assert [weight.name for weight in layer.variational_weights] == ["kernel"]


def _vanishing_scales_are_the_keras_layer(case):
    layer = case.built()
    if not all(w.has_free_scales for w in layer.variational_weights):
        return  # multipliers do not vanish
    for weight in layer.variational_weights:
        weight.assign(scale=tf.fill(weight.loc.shape, 1e-8))
    np.testing.assert_allclose(
        layer(case.inputs()),
        case.twin(layer)(case.inputs()),
        rtol=1e-5,
        atol=1e-5,
    )


def _time_distributed_counts_the_kl_once(case):
    x = np.stack([case.inputs()] * 3, axis=1)
    layer = case.built()
    distributed = keras.layers.TimeDistributed(layer)
    inputs = keras.Input(x.shape[1:])
    model = keras.Model(inputs, distributed(inputs))
    outputs = np.asarray(model(x))
    one = case.built()(x[:, 0])
    assert outputs.shape == (len(x), 3, *one.shape[1:])
    assert model.compute_output_shape((None, *x.shape[1:]))[1:] == tuple(
        outputs.shape[1:]
    )
    # Each step has draws of its own.
    assert layer_case.differ(outputs[:, 0], outputs[:, 1])
    _assert_losses_of_one_call(model, layer, case)
    with layers.mean_weights():
        np.testing.assert_allclose(
            model(x)[:, 2], layer(x[:, 2]), rtol=1e-6, atol=1e-6
        )


def _shared_layer_counts_the_kl_once(case):
    layer = case.built()
    inputs = keras.Input(case.input_shape)
    model = keras.Model(inputs, [layer(inputs), layer(inputs)])
    first, second = model(case.inputs())
    assert layer_case.differ(first, second)
    _assert_losses_of_one_call(model, layer, case)


def _assert_losses_of_one_call(model, layer, case):
    """Asserts that the losses of `model`, which has `layer`, count once."""
    same = case.built()
    same(case.inputs())
    assert len(model.losses) == len(same.losses)
    expected = layer_case.total(layer_case.reseeded_losses(same))
    functional.seeds.reseed(layer, 3)
    np.testing.assert_allclose(
        layer_case.total(model.losses), expected, rtol=1e-6
    )


def _kl_without_a_number_of_examples_is_an_error(case):
    x = case.inputs()
    layer = case.make(num_train_examples=None)
    model = case.functional(layer)
    y = case.targets(model)
    assert model(x).shape == y.shape
    message = r"number of training examples .*set_num_train_examples"
    with pytest.raises(ValueError, match=message):
        _ = model.losses
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match=message):
        model.fit(x, y, verbose=0)
    layers.set_num_train_examples(model, layer_case.NUM_TRAIN_EXAMPLES)
    model = case.functional(layer_case.spread(layer))
    _assert_losses_of_one_call(model, layer, case)
    assert (
        layer.get_config()["num_train_examples"]
        == layer_case.NUM_TRAIN_EXAMPLES
    )


def _weight_of_the_kl_changes_without_a_new_trace(case):
    layer = case.built()
    model = case.functional(layer)
    traces = []

    @tf.function(autograph=False)
    def traced():
        traces.append(None)
        return tf.add_n(model.losses)

    def kl():
        functional.seeds.reseed(model, 3)
        return float(traced())

    before = kl()
    layers.set_num_train_examples(model, 2 * layer_case.NUM_TRAIN_EXAMPLES)
    np.testing.assert_allclose(kl(), before / 2, rtol=1e-6)
    layers.set_kl_scale(model, 0.25)
    np.testing.assert_allclose(kl(), before / 8, rtol=1e-6)
    assert float(layer.kl_scale) == 0.25
    assert len(traces) == 1
    # Neither is a weight that files and copies would carry along.
    assert all(weight.name != "kl_scale" for weight in model.variables)


def _frozen_means_keep_their_kl(case):
    x = case.inputs()
    layer = case.built()
    count = len(layer.losses)
    expected = layer_case.total(layer_case.reseeded_losses(layer))
    for trainable in (False, True):
        for weight in layer.variational_weights:
            weight.loc.trainable = trainable
        with tf.GradientTape() as tape:
            layer(x)
            kl = tf.add_n(layer_case.reseeded_losses(layer))
        assert len(layer.losses) == count
        np.testing.assert_allclose(float(kl), expected, rtol=1e-6)
        scales = [
            weight.untransformed_scale.value
            for weight in layer.variational_weights
        ]
        for gradient in tape.gradient(kl, scales):
            assert np.any(gradient != 0.0)


def _point_estimates_are_ordinary_weights(case):
    x = case.inputs()
    for points in (("bias",), ("kernel",), ("kernel", "bias")):
        none = {f"{name}_posterior": None for name in points}
        if not set(none) <= case.arguments():
            return  # the kernel always has a posterior
        left = [name for name in ("kernel", "bias") if name not in points]
        # A KL regularizer is without effect on a point estimate.
        layer = case.built(**none)
        assert [w.name for w in layer.variational_weights] == left
        assert len(layer.losses) == len(left)
        assert set(points) <= {weight.name for weight in layer.weights}
        copy = type(layer).from_config(layer.get_config())
        assert copy.get_config() == layer.get_config()
        assert [w.name for w in case.built(**none).variational_weights] == left
        random = not np.allclose(layer(x), layer(x))
        assert random == bool(left)
        np.testing.assert_allclose(
            layer(x, sample=False), case.twin(layer)(x), rtol=1e-6, atol=1e-6
        )
        # Neither is a Keras regularizer divided by the number of examples.
        regularizer = keras.regularizers.L2(0.3)
        penalized = case.built(
            **none, **{f"{name}_regularizer": regularizer for name in points}
        )
        for variable in (penalized.kernel, penalized.bias):
            variable.assign(keras.ops.ones_like(variable))
        penalty = sum(
            0.3 * getattr(penalized, name).value.shape.num_elements()
            for name in points
        )
        found = layer_case.total(layer_case.reseeded_losses(penalized))
        kl = _kl_of_the_same_draw(penalized)
        np.testing.assert_allclose(
            found,
            penalty + kl / layer_case.NUM_TRAIN_EXAMPLES,
            rtol=1e-6,
        )
    # Nothing is left to divide.
    layer = case.make(**none, num_train_examples=None)
    layer(x)
    assert layer.losses == []


def _weights_without_a_prior_have_no_kl(case):
    layer = case.built(kernel_regularizer=None)
    assert [weight.prior is None for weight in layer.variational_weights] == [
        True,
        False,
    ]
    assert len(layer.losses) == 1


def _regularizers_of_points_are_refused_for_posteriors(case):
    for name in ("kernel", "bias"):
        with pytest.raises(ValueError, match=f"set {name}_posterior=None"):
            case.make(**{f"{name}_regularizer": "l2"})


CHECKS = (
    _variational_weights_say_what_the_layer_does,
    _every_variable_has_a_gradient,
    _means_are_the_keras_layer,
    _vanishing_scales_are_the_keras_layer,
    _time_distributed_counts_the_kl_once,
    _shared_layer_counts_the_kl_once,
    _kl_without_a_number_of_examples_is_an_error,
    _weight_of_the_kl_changes_without_a_new_trace,
    _frozen_means_keep_their_kl,
    _point_estimates_are_ordinary_weights,
    _weights_without_a_prior_have_no_kl,
    _regularizers_of_points_are_refused_for_posteriors,
)
