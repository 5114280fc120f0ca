"""The contract of every variational layer; one call checks all of it.

Here are the checks that ask for a good Keras layer; `posterior_contract` has
those that ask for a good posterior.
"""

import os
import tempfile

import keras
import numpy as np
import pytest

from tests.support import global_seed
from tests.support import layer_case
from tests.support import posterior_contract
from tfp_refine import functional
from tfp_refine import layers


def check_layer(
    make_layer,
    input_shape,
    reference,
    *,
    num_weights=4,
    num_losses=2,
    under_xla=True,
):
    """Checks all that a variational layer promises.

    Args:
        make_layer: Function that returns a new layer, to which some arguments
            are passed by keyword, all of them with precedence over its own:
            `functools.partial(layers.DenseFlipout, 4, activation="tanh")`. Its
            arguments should not be the default ones. It has a bias, both
            weights have a posterior and a KL regularizer.
        input_shape: Shape of an input example, without the batch axis.
        reference: The deterministic Keras layer, such as `keras.layers.Dense`.
        num_weights: Number of its weight tensors.
        num_losses: Number of its losses.
        under_xla: Whether it is also trained under XLA, which takes seconds.
            If not, `test_training_under_xla` does it.
    """
    case = layer_case.LayerCase(make_layer, input_shape, reference)
    _counts(case, num_weights, num_losses)
    for check in (*_CHECKS, *posterior_contract.CHECKS):
        global_seed.set_to(0)
        check(case)
    if under_xla:
        check_training_under_xla(make_layer, input_shape, reference)


def check_training_under_xla(make_layer, input_shape, reference):
    """Checks that a layer trains under XLA; arguments as of `check_layer`."""
    case = layer_case.LayerCase(make_layer, input_shape, reference)
    global_seed.set_to(0)
    model = _train_within_constraints(case, jit_compile=True)
    assert model.jit_compile


def _counts(case, num_weights, num_losses):
    layer = case.make()
    assert layer.variational_weights == []
    for _ in range(2):
        layer(case.inputs())
        assert len(layer.weights) == num_weights
        assert len(layer.trainable_weights) == num_weights
        assert len(layer.losses) == num_losses
    assert len({weight.path for weight in layer.weights}) == num_weights


def _shapes_agree(case):
    x = case.inputs()
    layer = case.make()
    inputs = keras.Input(case.input_shape)
    symbolic = layer(inputs)
    twin = case.twin(layer)
    expected = tuple(twin.compute_output_shape((None, *case.input_shape)))
    assert symbolic.shape == expected
    assert layer.compute_output_shape((None, *case.input_shape)) == expected
    for sample in (True, False):
        outputs = layer(x, sample=sample)
        assert tuple(outputs.shape) == (len(x), *expected[1:])
    # None batch: one model, any number of examples.
    model = keras.Model(inputs, symbolic)
    assert model(case.inputs(2)).shape[0] == 2
    assert model.predict(case.inputs(5), verbose=0).shape[0] == 5


def _draws_are_fresh_and_repeat_with_the_seed(case):
    x = case.inputs()
    layer = case.built()
    first, second = layer(x), layer(x)
    assert layer_case.differ(first, second)
    again = case.built()
    np.testing.assert_array_equal(again(x), first)
    np.testing.assert_array_equal(again(x), second)
    assert layer_case.differ(case.built(seed=2)(x), first)
    assert layer_case.differ(case.built(seed=None)(x), case.built(seed=None)(x))
    for training in (True, False):
        model = case.functional(case.built())
        np.testing.assert_array_equal(model(x, training=training), first)


def _config_is_complete(case):
    layer = case.make()
    config = layer.get_config()
    arguments = case.arguments()
    keras_arguments = layer_case.init_arguments(case.reference)
    assert arguments <= set(config)
    assert keras_arguments - layer_case.DETERMINISTIC_ONLY <= arguments
    assert type(layer).from_config(config).get_config() == config


def _config_of_the_keras_layer_is_accepted(case):
    twin = case.twin(case.make())
    layer = type(case.make()).from_config(twin.get_config())
    config = layer.get_config()
    for name, value in twin.get_config().items():
        if name not in layer_case.DETERMINISTIC_ONLY:
            assert config[name] == value, name
    assert layer(case.inputs()).shape == twin(case.inputs()).shape
    names = layer_case.init_arguments(case.reference)
    for name in names & layer_case.DETERMINISTIC_ONLY:
        with pytest.raises(ValueError, match="needs a deterministic kernel"):
            type(layer).from_config(twin.get_config() | {name: 2})


def _assert_same_function(model, other, x):
    """Asserts equal weights, losses, means and, from one seed, draws."""
    for weight, copy in zip(model.weights, other.weights, strict=True):
        assert weight.name == copy.name
        np.testing.assert_array_equal(weight, copy)
    outputs = []
    for either in (model, other):
        functional.seeds.reseed(either, 3)
        with layers.mean_weights():
            means = either(x)
        outputs.append((means, either(x), layer_case.total(either.losses)))
    for ours, theirs in zip(*outputs, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def _survives_a_round_trip(case):
    x = case.inputs()
    layer = case.built()
    copy = type(layer).from_config(layer.get_config())
    copy(x)
    copy.set_weights(layer.get_weights())
    _assert_same_function(layer, copy, x)
    model = case.functional(layer)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.keras")
        model.save(path)
        loaded = keras.saving.load_model(path)
    assert type(loaded.layers[-1]) is type(layer)
    assert loaded.layers[-1].get_config() == layer.get_config()
    _assert_same_function(model, loaded, x)


def _can_be_cloned(case):
    x = case.inputs()
    model = case.functional(case.built())
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    _assert_same_function(model, clone, x)
    before = layer_case.values(model.variables)
    for weight in clone.weights:
        weight.assign(weight + 1.0)
    clone(x)
    after = layer_case.values(model.variables)
    for ours, theirs in zip(before, after, strict=True):
        np.testing.assert_array_equal(ours, theirs)


class MaskSpy(keras.layers.Layer):
    """Keeps the mask that arrives."""

    def __init__(self):
        super().__init__()
        self.supports_masking = True

    def call(self, inputs, mask=None):
        self.mask = mask
        return inputs


def _mask_passes_through(case):
    x = case.inputs()
    layer = case.built()
    assert layer.supports_masking == (case.reference is keras.layers.Dense)
    if not layer.supports_masking:  # as Keras' convolutions
        return
    x[1, ...] = 0.0
    spy = MaskSpy()
    spy(layer(keras.layers.Masking()(x)))
    expected = np.any(x != 0.0, axis=-1)
    np.testing.assert_array_equal(spy.mask, expected)


def _fit(model, case, **arguments):
    """Trains for one step; asserts that every weight changes and is finite."""
    before = layer_case.values(model.trainable_weights)
    model.compile(keras.optimizers.SGD(0.01), loss="mse", **arguments)
    history = model.fit(case.inputs(), case.targets(model), verbose=0)
    assert np.isfinite(history.history["loss"][0])
    after = layer_case.values(model.trainable_weights)
    for weight, old, new in zip(
        model.trainable_weights, before, after, strict=True
    ):
        assert np.all(np.isfinite(new)), weight.path
        assert np.any(new != old), weight.path


def _trains_within_its_constraints(case):
    _train_within_constraints(case, run_eagerly=True)


def _train_within_constraints(case, **arguments):
    """Trains for one step with constraints that act; returns the model."""
    layer = case.built(kernel_constraint="non_neg", bias_constraint="non_neg")
    for weight in layer.variational_weights:
        small = np.full(weight.loc.shape, 0.3)
        layer_case.assign(weight, loc=-np.abs(weight.loc), scale=small)
    model = case.functional(layer)
    _fit(model, case, **arguments)
    assert np.min(layer.kernel) == np.min(layer.bias) == 0.0
    # Means are constrained, scales are not.
    for weight in layer.variational_weights:
        assert np.any(weight.untransformed_scale < 0.0)
    return model


class Subclassed(keras.Model):
    """A model that Keras builds when it is first trained, inside a trace."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def call(self, inputs):
        return self.layer(inputs)


def _trains_in_a_subclassed_model_that_is_not_built(case):
    same = case.functional(case.make())
    model = Subclassed(case.make())
    model.compile("sgd", "mse")
    history = model.fit(case.inputs(), case.targets(same), verbose=0)
    assert np.isfinite(history.history["loss"][0])
    assert len(model.weights) == len(same.weights)


def _trains_in_half_precision(case):
    for policy in ("mixed_bfloat16", "mixed_float16"):
        layer = case.built(dtype=policy)
        outputs = layer(case.inputs())
        assert outputs.dtype == layer.compute_dtype == policy[len("mixed_") :]
        assert {weight.dtype for weight in layer.weights} == {"float32"}
        _fit(case.functional(layer), case, run_eagerly=True)
        # Too much for float16, too many digits for bfloat16.
        half, full = case.built(dtype=policy), case.built()
        for weight in (*half.variational_weights, *full.variational_weights):
            weight.loc.assign(keras.ops.full(weight.loc.shape, 250.0))
        kl, expected = (
            layer_case.total(layer_case.reseeded_losses(either))
            for either in (half, full)
        )
        assert kl * layer_case.NUM_TRAIN_EXAMPLES > 65504
        np.testing.assert_allclose(kl, expected, rtol=1e-6)
        assert {loss.dtype.name for loss in half.losses} == {"float32"}


def _starts_where_the_keras_layer_starts(case):
    initializers = {
        "kernel_initializer": keras.initializers.HeNormal(seed=3),
        "bias_initializer": keras.initializers.RandomNormal(seed=4),
    }
    layer = case.make(**initializers)
    twin = case.twin(layer)
    for either in (layer, twin):
        either.build((None, *case.input_shape))
    np.testing.assert_array_equal(layer.kernel, twin.kernel)
    np.testing.assert_array_equal(layer.bias, twin.bias)


def _regularizes_its_activity_as_the_keras_layer(case):
    x = case.inputs()
    layer = case.built(activity_regularizer=keras.regularizers.L2(0.2))
    twin = case.twin(layer)
    layer(x, sample=False)
    twin(x)
    plain = layer_case.total(layer_case.reseeded_losses(case.built()))
    assert layer_case.total(twin.losses) > 0.0
    np.testing.assert_allclose(
        layer_case.total(layer_case.reseeded_losses(layer)),
        plain + layer_case.total(twin.losses),
        rtol=1e-5,
    )


_CHECKS = (
    _shapes_agree,
    _draws_are_fresh_and_repeat_with_the_seed,
    _config_is_complete,
    _config_of_the_keras_layer_is_accepted,
    _survives_a_round_trip,
    _can_be_cloned,
    _mask_passes_through,
    _trains_within_its_constraints,
    _trains_in_a_subclassed_model_that_is_not_built,
    _trains_in_half_precision,
    _starts_where_the_keras_layer_starts,
    _regularizes_its_activity_as_the_keras_layer,
)
