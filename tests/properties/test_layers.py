"""Properties of every layer, whatever its arguments."""

import json

import hypothesis
import keras
import numpy as np
import tensorflow as tf

from tests.properties import budget
from tests.properties import layer_cases
from tests.support import layer_case
from tfp_refine import functional
from tfp_refine import layers
from tfp_refine import regularizers

any_layer = hypothesis.given(layer_cases.any_of(layer_cases.ALL))


def _close(found, expected, dtype):
    found = np.asarray(keras.ops.cast(found, "float64"))
    expected = np.asarray(keras.ops.cast(expected, "float64"))
    rounding = layer_cases.ROUNDING[dtype]
    largest = max(1.0, np.max(np.abs(expected), initial=0.0))
    np.testing.assert_allclose(found, expected, rtol=0, atol=rounding * largest)


@budget.cases(12)
@any_layer
def test_outputs_are_finite_and_of_the_shape_and_dtype_promised(case):
    x = case.inputs()
    layer = case.make()
    for sample in (None, True, False):
        outputs = layer(x, sample=sample)
        assert np.all(np.isfinite(np.asarray(outputs, "float64")))
        assert keras.backend.standardize_dtype(outputs.dtype) == (
            layer.compute_dtype
        )
        assert tuple(outputs.shape) == layer.compute_output_shape(x.shape)
    model = case.functional(case.make())
    assert tuple(model.output_shape[1:]) == tuple(outputs.shape[1:])


@budget.cases(12)
@any_layer
def test_means_are_the_keras_layer(case):
    x = case.inputs()
    layer = layer_cases.spread(case.built())
    outputs = layer(x, sample=False)
    np.testing.assert_array_equal(layer(x, sample=False), outputs)
    with layers.mean_weights():
        np.testing.assert_array_equal(layer(x), outputs)
    _close(outputs, case.expected(layer, x), layer.compute_dtype)


@budget.cases(8)
@any_layer
def test_draws_repeat_with_the_seed_and_differ_otherwise(case):
    x = case.inputs()
    if "activation" in case.arguments:
        case.arguments["activation"] = "tanh"  # others have no negative side
    layer, same, other = (
        layer_cases.spread(case.built(seed=seed)) for seed in (3, 3, 4)
    )
    first = layer(x, sample=True)
    np.testing.assert_array_equal(same(x, sample=True), first)
    second = layer(x, sample=True)
    np.testing.assert_array_equal(same(x, sample=True), second)
    if layer.variational_weights and layer.compute_dtype == "float64":
        # A unit of a convolution may see a kernel of nothing but padding.
        assert np.any(second != first)
        assert np.any(other(x, sample=True) != first)


def _expected_losses(case, layer):
    """Counts the losses that the arguments ask for."""
    count = case.arguments.get("activity_regularizer") is not None
    for weight in layer.weight_tensors:
        if hasattr(weight, "scale_weights"):
            count += weight.regularizer is not None
        else:
            part = _part(layer, weight.name)
            regularizer = getattr(layer, f"{part}_regularizer")
            count += not (
                regularizer is None or regularizers.is_kl(regularizer)
            )
    return count


def _part(layer, name):
    for part, variable in getattr(layer, "parts", ()):
        if variable.removeprefix("_") == name:
            return part
    return name


def _has_floor(weight):
    """Tells whether the divergence of a weight is never negative."""
    if not weight.is_gaussian or weight.has_random_kl:
        return False
    config = weight.regularizer.get_config()
    return not (config.get("inverse_gamma") or config.get("exponential_rate"))


@budget.cases(12)
@any_layer
def test_divergences_are_finite_not_negative_and_weighted_once(case):
    x = case.inputs()
    case.arguments["activity_regularizer"] = None
    for name, value in case.arguments.items():
        if value == "l2":
            case.arguments[name] = None  # not divided by the examples
    if case.kind in layer_cases.SAMPLED:
        del case.arguments["activity_regularizer"]
    layer = layer_cases.spread(case.built(kl_scale=1.0, num_train_examples=1))
    layer(x)
    assert np.all(np.isfinite(layer.losses))  # at the draw of the outputs
    losses = layer_case.reseeded_losses(layer)  # at one of their own
    assert len(losses) == _expected_losses(case, layer)
    assert np.all(np.isfinite(losses))
    for weight in layer.variational_weights:
        if weight.regularizer is not None and _has_floor(weight):
            kl = float(weight.kl())
            assert kl >= -1e-5 * layer_cases.size(weight.loc.shape), kl
    total = layer_case.total(losses)
    for factor, count in ((1.0, 7), (0.25, 1), (3.0, 1000)):
        layers.set_num_train_examples(layer, count)
        if layer.kl_scale is not None:
            layer.kl_scale.assign(factor)
        scaled = layer_case.total(layer_case.reseeded_losses(layer))
        np.testing.assert_allclose(scaled, total * factor / count, rtol=1e-5)
    other = layer_cases.spread(
        case.built(kl_scale=3.0, num_train_examples=1000)
    )
    other(x)
    assert len(other.losses) == len(losses)
    again = layer_case.total(layer_case.reseeded_losses(other))
    np.testing.assert_allclose(again, scaled, rtol=1e-5)


@budget.cases(8)
@any_layer
def test_losses_are_those_that_arguments_ask_for(case):
    layer = case.make()
    for _ in range(2):
        layer(case.inputs())
        assert len(layer.losses) == _expected_losses(case, layer)


@budget.cases(12)
@any_layer
def test_every_variable_has_a_finite_gradient(case):
    x = case.inputs()
    layer = layer_cases.spread(case.built(sample=True))
    with tf.GradientTape() as tape:
        outputs = keras.ops.cast(layer(x), "float32")
        loss = tf.reduce_sum(tf.square(outputs))
        for each in layer.losses:
            loss += tf.cast(each, tf.float32)
    variables = layer.trainable_variables
    gradients = tape.gradient(loss, [v.value for v in variables])
    for variable, gradient in zip(variables, gradients, strict=True):
        if gradient is None:
            # Nothing but the KL could use it.
            assert "auxiliary" in variable.path or "prior" in variable.path
            continue
        gradient = tf.convert_to_tensor(gradient)
        assert gradient.shape == variable.shape
        assert np.all(np.isfinite(gradient)), variable.path


@budget.cases(12)
@any_layer
def test_a_configuration_makes_the_same_layer(case):
    x = case.inputs()
    layer = layer_cases.spread(case.built(seed=5))
    config = layer.get_config()
    assert json.loads(json.dumps(config)) is not None
    copy = type(layer).from_config(config)
    assert copy.get_config() == config
    copy.build((None, *case.shape))
    assert [w.name for w in copy.weights] == [w.name for w in layer.weights]
    copy.set_weights(layer.get_weights())
    for sample in (True, False):
        np.testing.assert_array_equal(
            copy(x, sample=sample), layer(x, sample=sample)
        )
    for each in (copy, layer):
        functional.seeds.reseed(each, 3)
    assert list(map(float, copy.losses)) == list(map(float, layer.losses))


@budget.cases(20)
@any_layer
def test_posteriors_can_be_set(case):
    layer = case.built()
    rng = np.random.default_rng(0)
    for weight in layer.variational_weights:
        loc = rng.normal(size=weight.loc.shape)
        scale = np.exp(rng.normal(-1.0, 0.5, size=weight.loc.shape))
        weight.initialize(loc, scale)
        if weight.is_gaussian:
            np.testing.assert_allclose(weight.loc, loc, rtol=1e-5, atol=1e-6)
        assert np.all(np.isfinite(weight.loc))
        assert np.all(np.isfinite(weight.scale))
        assert np.all(np.asarray(weight.scale) > 0.0)
        if weight.has_free_scales:
            weight.assign(scale=scale)
            np.testing.assert_allclose(weight.scale, scale, rtol=1e-4)
    outputs = layer(case.inputs(), sample=True)
    assert np.all(np.isfinite(np.asarray(outputs, "float64")))
