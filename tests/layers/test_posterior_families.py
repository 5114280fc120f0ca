import inspect
import os

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import layer_case
from tests.support import posterior_families
from tfp_refine import layers
from tfp_refine import regularizers
from tfp_refine.layers import posterior_lookup


@posterior_families.every_family
def test_a_name_stands_for_the_family_with_default_arguments(family):
    posterior = posterior_lookup.get(family)
    assert isinstance(posterior, layers.PosteriorFamily)
    assert type(posterior) is type(posterior_families.FAMILIES[family][0])
    assert posterior.get_config() == type(posterior)().get_config()
    layer = layers.DenseFlipout(8, kernel_posterior=family)
    layer.build((None, 7))
    kernel, bias = layer.variational_weights
    assert (kernel.family, bias.family) == (family, "mean_field")


def test_defaults_are_the_documented_ones():
    assert layers.FixedVariancePosterior().get_config() == {
        "scale": float(np.exp(-5.0))
    }
    assert layers.KTiedPosterior().get_config() == {
        "rank": None,
        "initial_scale": 1e-3,
        "seed": 0,
    }
    assert layers.LowRankPosterior().get_config() == {
        "rank": None,
        "initial_scale": 1e-3,
        "seed": 0,
    }


@posterior_families.every_family
def test_configs_hold_every_argument(family):
    for posterior in posterior_families.FAMILIES[family]:
        config = posterior.get_config()
        assert set(config) == set(inspect.signature(type(posterior)).parameters)
        assert type(posterior).from_config(config).get_config() == config
        serialized = keras.saving.serialize_keras_object(posterior)
        name = type(posterior).__name__
        assert serialized["registered_name"] == f"tfp_refine>{name}"
        again = posterior_lookup.get(serialized)
        assert type(again) is type(posterior)
        assert again.get_config() == config
        assert posterior_lookup.get(posterior) is posterior


@pytest.mark.parametrize(
    "identifier",
    ["gaussian", "LowRankPosterior", 3, layers.DenseFlipout, ["k_tied"]],
)
def test_unknown_families_are_refused_with_the_names_of_all(identifier):
    message = (
        r"one of \['fixed_variance', 'k_tied', 'low_rank', 'mean_field'\].*"
        "Received: "
    )
    for name in ("kernel", "bias"):
        with pytest.raises(ValueError, match=message):
            layers.DenseFlipout(2, **{f"{name}_posterior": identifier})


def test_a_class_stands_for_a_family_with_its_defaults():
    layer = layers.DenseFlipout(2, kernel_posterior=layers.LowRankPosterior)
    expected = layers.DenseFlipout(2, kernel_posterior="low_rank")
    layer.name = expected.name
    assert layer.get_config() == expected.get_config()


def test_configs_of_other_objects_are_refused():
    for other in (regularizers.GaussianKL(), keras.initializers.Zeros()):
        config = keras.saving.serialize_keras_object(other)
        with pytest.raises(ValueError, match="A posterior must be one of"):
            posterior_lookup.get(config)


def test_a_family_of_ones_own_says_how_it_is_built():
    class Nothing(layers.PosteriorFamily):
        pass

    layer = layers.DenseFlipout(2, kernel_posterior=Nothing())
    with pytest.raises(NotImplementedError, match="Nothing must .*`build`"):
        layer.build((None, 3))
    assert Nothing.from_config(Nothing().get_config()).get_config() == {}


@pytest.mark.slow
@posterior_families.every_family
@pytest.mark.parametrize(
    ("make_layer", "input_shape", "arguments"),
    [
        (layers.DenseFlipout, (4,), {"units": 3}),
        (
            layers.Conv2DLocalReparameterization,
            (3, 3, 2),
            {"filters": 3, "kernel_size": 2},
        ),
    ],
)
def test_a_model_survives_a_round_trip(
    family, make_layer, input_shape, arguments, tmp_path
):
    layer = posterior_families.built(
        make_layer,
        family,
        input_shape,
        kernel_regularizer="empirical_bayes_kl",
        **arguments,
    )
    inputs = keras.Input(input_shape)
    model = keras.Model(inputs, layer(inputs))
    path = os.path.join(tmp_path, "model.keras")
    model.save(path)
    loaded = keras.saving.load_model(path)
    copy = type(layer).from_config(layer.get_config())
    copy.build((None, *input_shape))
    copy.set_weights(layer.get_weights())
    x = np.random.default_rng(7).normal(size=(4, *input_shape))
    for other in (loaded.layers[-1], copy):
        assert other.get_config() == layer.get_config()
        for ours, theirs in zip(
            layer.variational_weights, other.variational_weights, strict=True
        ):
            assert ours.family == theirs.family == family
            np.testing.assert_array_equal(ours.scale, theirs.scale)
        with layers.mean_weights():
            np.testing.assert_array_equal(layer(x), other(x))
        assert len(layer.losses) == len(other.losses) == 2
        assert layer_case.total(layer.losses) == layer_case.total(other.losses)


# Variables, gradients and losses.


@posterior_families.every_family
def test_variables_are_named_after_their_weight(family):
    layer = posterior_families.dense(layers.DenseFlipout, family)
    learned = {
        "fixed_variance": [],
        "k_tied": ["untransformed_rows", "untransformed_columns"],
        "low_rank": ["untransformed_diagonal", "factor"],
    }[family]
    assert [variable.name for variable in layer.trainable_weights] == [
        f"{name}_{part}"
        for name in ("kernel", "bias")
        for part in ("loc", *learned)
    ]
    for weight in layer.variational_weights:
        assert [v.name for v in weight.scale_weights] == [
            f"{weight.name}_{part}" for part in learned
        ]


@pytest.mark.slow
@posterior_families.every_family
@posterior_families.every_dense
def test_every_variable_has_a_gradient(family, make_layer):
    layer = posterior_families.dense(
        make_layer, family, kernel_regularizer="empirical_bayes_kl"
    )
    x = np.random.default_rng(7).normal(size=(6, 4)).astype("float32")
    posterior = [
        variable
        for weight in layer.variational_weights
        for variable in (weight.loc, *weight.scale_weights)
    ]
    with tf.GradientTape(persistent=True) as tape:
        data_loss = tf.reduce_sum(tf.square(layer(x) - 1.0))
        kl = tf.add_n(layer.losses)
    for loss, variables in (
        (data_loss, posterior),
        (kl, layer.trainable_variables),
    ):
        for variable in variables:
            gradient = tape.gradient(loss, variable.value)
            assert gradient is not None, variable.path
            assert np.all(np.isfinite(gradient)), variable.path
            assert np.all(np.asarray(gradient) != 0.0), variable.path


@posterior_families.every_family
@posterior_families.every_dense
def test_gradients_are_finite_for_inputs_of_zero(family, make_layer):
    layer = posterior_families.dense(make_layer, family, use_bias=False)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(np.zeros([5, 4], "float32")))
    for gradient in tape.gradient(loss, layer.trainable_variables):
        assert gradient is None or np.all(np.isfinite(gradient))


@pytest.mark.slow
@posterior_families.every_family
@posterior_families.every_dense
def test_draws_are_fresh_and_repeat_with_the_seed(family, make_layer):
    x = np.random.default_rng(7).normal(size=(6, 4)).astype("float32")
    layer, again = (
        posterior_families.dense(make_layer, family) for _ in range(2)
    )
    first, second = layer(x), layer(x)
    assert layer_case.differ(first, second)
    np.testing.assert_array_equal(again(x), first)
    np.testing.assert_array_equal(again(x), second)
    assert layer_case.differ(
        posterior_families.dense(make_layer, family, seed=2)(x), first
    )


@posterior_families.every_family
def test_the_kl_of_frozen_means_hangs_on_another_variable(family):
    layer = posterior_families.dense(layers.DenseFlipout, family)
    x = np.ones([2, 4], "float32")
    layer(x)
    expected = layer_case.total(layer.losses)
    np.testing.assert_allclose(
        expected,
        sum(float(w.kl()) for w in layer.variational_weights)
        / posterior_families.NUM_TRAIN_EXAMPLES,
        rtol=1e-6,
    )
    order = list(
        zip(
            *((w.loc, *w.scale_weights) for w in layer.variational_weights),
            strict=True,
        )
    )
    for frozen in order[:-1]:
        for variable in frozen:
            variable.trainable = False
        layer(x)
        assert len(layer.losses) == 2
        np.testing.assert_allclose(
            layer_case.total(layer.losses), expected, rtol=1e-6
        )
    for variable in order[-1]:
        variable.trainable = False
    layer(x)
    assert layer.losses == []
    for variables in order:
        for variable in variables:
            variable.trainable = True
    layer(x)
    assert len(layer.losses) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "make_layer"),
    [
        ("k_tied", layers.DenseFlipout),
        ("low_rank", layers.DenseLocalReparameterization),
    ],
)
def test_it_trains_under_xla_in_half_precision(family, make_layer):
    layer = posterior_families.dense(make_layer, family, dtype="mixed_float16")
    inputs = keras.Input((4,))
    model = keras.Model(inputs, layer(inputs))
    model.compile(keras.optimizers.SGD(0.01), "mse", jit_compile=True)
    x = np.random.default_rng(7).normal(size=(8, 4)).astype("float32")
    before = layer_case.values(layer.trainable_weights)
    history = model.fit(x, np.full([8, 3], 3.0), verbose=0)
    assert model.jit_compile
    assert np.isfinite(history.history["loss"][0])
    assert {weight.dtype for weight in layer.weights} == {"float32"}
    assert {loss.dtype.name for loss in layer.losses} == {"float32"}
    for weight, old in zip(layer.trainable_weights, before, strict=True):
        assert np.all(np.isfinite(weight)), weight.path
        assert np.all(np.asarray(weight) != old), weight.path


@posterior_families.every_family
@posterior_families.every_dense
def test_double_precision_stays_so(family, make_layer):
    layer = posterior_families.dense(make_layer, family, dtype="float64")
    assert layer(np.ones([2, 4])).dtype == "float64"
    assert {weight.dtype for weight in layer.weights} == {"float64"}
    assert {loss.dtype.name for loss in layer.losses} == {"float64"}


@posterior_families.every_family
def test_half_precision_keeps_small_scales(family):
    half, full = (
        posterior_families.dense(
            layers.DenseFlipout,
            family,
            dtype=dtype,
            kernel_regularizer="empirical_bayes_kl",
        )
        for dtype in ("mixed_float16", "float32")
    )
    for layer in (half, full):
        for weight in layer.variational_weights:
            for variable in weight.scale_weights:
                variable.assign(variable - 12.0)
    assert half(np.ones([2, 4], "float32")).dtype == "float16"
    # float16 has no numbers between 0 and 6e-8.
    assert layer_case.total(half.losses) == layer_case.total(full.losses)


@pytest.mark.slow
@posterior_families.every_family
def test_a_layer_can_be_built_inside_a_trace(family):
    # As Keras does with subclassed models.
    layer, same = (
        posterior_families.make(layers.DenseFlipout, family, units=3)
        for _ in "12"
    )
    outputs = tf.function(layer)(np.ones([2, 4], "float32"))
    assert np.all(np.isfinite(outputs))
    same.build((None, 4))
    for weight, other in zip(
        layer.variational_weights, same.variational_weights, strict=True
    ):
        for ours, theirs in zip(
            weight.scale_weights, other.scale_weights, strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_allclose(weight.scale, other.scale, rtol=1e-6)
