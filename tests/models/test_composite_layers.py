"""Layers within layers, and layers of users, in models that are converted."""

import warnings

import keras
import numpy as np
import pytest

import tfp_refine as tfr

L = keras.layers
NUM = {"num_train_examples": 5}
pytestmark = [
    pytest.mark.filterwarnings("ignore:These layers:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*dropout.*:UserWarning"),
]


def chain(*layers, shape=(5,), dtype=None):
    return keras.Sequential([keras.Input(shape, dtype=dtype), *layers])


def assert_equal_at_means(converted, model, x):
    with tfr.layers.mean_weights():
        np.testing.assert_array_equal(converted(x), model(x))


CONVERSIONS = {
    "bayesian": lambda model: tfr.models.to_bayesian(model, **NUM),
    "deterministic": lambda model: tfr.models.to_deterministic(
        tfr.models.to_bayesian(model, **NUM)
    ),
    "dropout": lambda model: tfr.models.to_mc_dropout(model, **NUM),
    "learned": lambda model: tfr.models.to_mc_dropout(
        model, learn_rate=True, **NUM
    ),
}
every_conversion = pytest.mark.parametrize("conversion", CONVERSIONS)


class Composite(L.Layer):
    """A layer of a few, which are built with it."""

    def __init__(self, *layers, **options):
        super().__init__(**options)
        self.parts = layers

    def build(self, shape):
        for layer in self.parts:
            if not layer.built:
                layer.build(shape)

    def call(self, inputs):
        for layer in self.parts:
            inputs = layer(inputs)
        return inputs


class OfTwo(Composite):
    def __init__(self, **options):
        super().__init__(L.Dense(5), L.Dense(5), **options)


class NormalizedDense(Composite):
    def __init__(self, **options):
        super().__init__(L.Normalization(), L.Dense(5), **options)


class Sharing(L.Layer):
    """Hands on the layer inside, not how it was made."""

    def __init__(self, inside, **options):
        super().__init__(**options)
        self.inside = inside

    def call(self, inputs):
        return self.inside(inputs)

    def get_config(self):
        return {**super().get_config(), "inside": self.inside}


class OwnName(L.Layer):
    """Means something else by `name`."""

    def __init__(self, name="double"):
        super().__init__()
        self.mode = name

    def call(self, inputs):
        return inputs * (2.0 if self.mode == "double" else 3.0)

    def get_config(self):
        return {"name": self.mode}


class Scaled(L.Dense):
    """Does not say by which layers."""

    def __init__(self, units, scale, **options):
        super().__init__(units, **options)
        self.scale = scale

    def call(self, inputs, training=None):
        return self.scale * super().call(inputs)


class Nameless(L.Dense):
    @classmethod
    def from_config(cls, config):
        del config["name"]
        return cls(**config)


class OfUnknownShape(L.Layer):
    def call(self, inputs):
        return 2.0 * inputs

    def compute_output_shape(self, input_shape):
        raise NotImplementedError

    compute_output_spec = compute_output_shape


class Late(L.Layer):
    """Makes its weights when it is called."""

    def __init__(self, **options):
        super().__init__(**options)
        self.inside = L.Dense(5)

    def call(self, inputs):
        return self.inside(inputs)


def adapted(layer, x):
    layer.adapt(x)
    return layer


@every_conversion
@pytest.mark.parametrize("wrap", [L.TimeDistributed, Composite])
def test_what_was_adapted_inside_a_layer_is_kept(conversion, wrap, rng):
    x = rng.normal(3.0, 2.0, size=(40, 4, 5)).astype("float32")
    inside = adapted(L.Normalization(), x)
    if wrap is L.TimeDistributed:
        inside = adapted(L.Normalization(), x[:, 0])
    model = chain(wrap(inside), L.Dense(3), L.Dense(2), shape=(4, 5))
    assert_equal_at_means(CONVERSIONS[conversion](model), model, x)


def test_layers_inside_are_named_with_their_path():
    inputs = keras.Input((4, 5))
    hidden = L.TimeDistributed(
        chain(Scaled(5, 2.0, name="own"), L.Dense(5, name="dense")), name="each"
    )(inputs)
    hidden = L.SimpleRNN(5, return_sequences=True, name="simple")(hidden)
    inner = keras.Sequential(
        [keras.Input((4, 5)), OfTwo(name="two")], name="inner"
    )
    hidden = Composite(
        Composite(L.Dense(5, name="dense"), name="deep"), name="mine"
    )(inner(hidden))
    model = keras.Model(inputs, L.Dense(2)(hidden))
    model.get_layer("each").layer.name = "chain"
    with pytest.warns(UserWarning, match="kept itself") as found:
        tfr.models.to_bayesian(model, **NUM)
    messages = [str(warning.message) for warning in found]
    assert "'each', a TimeDistributed, is kept" in messages[0]
    assert "not reached: each/chain/dense." in messages[0]
    assert "'mine', a Composite, is kept" in messages[1]
    assert "not reached: mine/deep/dense." in messages[1]
    names = messages[2].removesuffix(".").split(": ")[1].split(", ")
    assert names == ["each/chain/own", "simple"]


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [3, None])
def test_a_layer_for_each_step_is_converted_and_back(dimension, rng):
    shared = L.Dense(3, name="inside", bias_initializer="ones")
    model = chain(
        L.TimeDistributed(shared, name="each"),
        L.Dense(2),
        shape=(dimension, 5),
    )
    converted = tfr.models.to_bayesian(model, **NUM)
    x = rng.normal(size=(2, 3, 5)).astype("float32")
    assert_equal_at_means(converted, model, x)
    inside = converted.get_layer("each").layer
    assert type(inside) is tfr.layers.DenseFlipout
    assert inside.name == "inside"
    converted.compile("sgd", "mse", run_eagerly=True)
    converted.fit(x, np.ones((2, 3, 2)), verbose=0)
    assert np.any(np.array(inside.kernel) != np.array(shared.kernel))
    back = tfr.models.to_deterministic(converted)
    assert type(back.get_layer("each").layer) is L.Dense
    assert_equal_at_means(converted, back, x)
    chosen = tfr.models.to_bayesian(model, layers="each", **NUM)
    assert [type(layer) for layer in chosen.layers] == [
        L.TimeDistributed,
        L.Dense,
    ]


@every_conversion
def test_preprocessing_beside_weights_is_kept(conversion, rng):
    inside = NormalizedDense()
    inside.parts[0].adapt(rng.normal(3.0, 2.0, size=(40, 5)))
    model = chain(inside, L.Dense(3), L.Dense(2))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*is kept itself")
        converted = CONVERSIONS[conversion](model)
    copied = converted.get_layer(inside.name)
    assert copied.parts[0] is inside.parts[0]
    assert copied.parts[1] is not inside.parts[1]
    assert_equal_at_means(converted, model, rng.normal(size=(3, 5)))


@every_conversion
def test_copies_do_not_share_variables_unnoticed(conversion):
    model = chain(Sharing(L.Dense(5)), L.Dense(3), L.Dense(2))
    with pytest.warns(UserWarning, match="is kept itself.* its variables"):
        CONVERSIONS[conversion](model)


@every_conversion
def test_a_configuration_may_mean_something_else_by_name(conversion, rng):
    model = chain(OwnName("double"), L.Dense(3), L.Dense(2))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*is kept itself")
        converted = CONVERSIONS[conversion](model)
    assert_equal_at_means(converted, model, rng.normal(size=(3, 5)))


@every_conversion
def test_parts_that_are_frozen_stay_so(conversion, rng):
    inputs = keras.Input((4, 5))
    attention, composite = L.MultiHeadAttention(2, 3), OfTwo()
    recurrent, simple = L.LSTM(5, return_sequences=True), L.SimpleRNN(5)
    hidden = composite(attention(inputs, inputs))
    hidden = simple(recurrent(hidden))
    model = keras.Model(inputs, L.Dense(2)(L.Dense(3)(hidden)))
    attention.query_dense.trainable = False
    composite.parts[0].trainable = False
    for layer in (recurrent, simple):
        layer.cell.trainable = False
    converted = CONVERSIONS[conversion](model)
    for layer, count in (
        (attention, 6),
        (composite, 2),
        (recurrent, 0),
        (simple, 0),
    ):
        assert len(layer.trainable_weights) == count
        copied = converted.get_layer(layer.name)
        scales = sum("scale" in v.name for v in copied.trainable_weights)
        assert len(copied.trainable_weights) == count + scales
    x = rng.normal(size=(3, 4, 5)).astype("float32")
    assert_equal_at_means(converted, model, x)


@pytest.mark.parametrize("learn_rate", [False, True])
def test_dropout_is_behind_layers_of_another_name_too(learn_rate, rng):
    model = chain(
        Nameless(4, name="first"), L.Dense(4, name="second"), L.Dense(2)
    )
    converted = tfr.models.to_mc_dropout(model, learn_rate=learn_rate, **NUM)
    x = rng.normal(size=(3, 5))
    assert_equal_at_means(converted, model, x)
    names = [layer.name for layer in converted.layers]
    expected = {"first"} if learn_rate else {"first_dropout", "second_dropout"}
    assert expected <= set(names)


@every_conversion
def test_a_subclass_that_cannot_be_remade_is_kept_and_named(conversion, rng):
    model = chain(Scaled(4, 3.0, name="mine"), L.Dense(4), L.Dense(2))
    with pytest.warns(UserWarning, match="'mine', .* is kept itself"):
        converted = CONVERSIONS[conversion](model)
    assert converted.get_layer("mine") is model.get_layer("mine")
    assert_equal_at_means(converted, model, rng.normal(size=(3, 5)))


class Unregularized(L.Dense):
    @classmethod
    def from_config(cls, config):
        if config["bias_regularizer"] is not config["kernel_regularizer"]:
            raise TypeError("no regularizers here")
        return super().from_config(config)


def test_a_prior_is_not_left_out_unnoticed():
    model = chain(Unregularized(4, name="mine"), L.Dense(4), L.Dense(2))
    with pytest.raises(ValueError, match="'mine', .*: no regularizers here"):
        tfr.models.to_mc_dropout(model, **NUM)


def grown():
    layer = L.SimpleRNN(4, name="mine")
    layer.more = layer.add_weight((1,), name="more")
    return layer


def quantized():
    layer = L.Dense(4, name="mine")
    layer.build((None, 5))
    layer.quantize("float8")
    return layer


@pytest.mark.parametrize("make", [grown, quantized])
def test_what_cannot_take_the_weights_is_kept_and_named(make, rng):
    model = chain(make(), L.Flatten(), L.Dense(2), shape=(4, 5))
    with pytest.warns(UserWarning, match="'mine', .* is kept itself"):
        converted = tfr.models.to_bayesian(model, **NUM)
    assert converted.get_layer("mine") is model.get_layer("mine")
    x = rng.normal(size=(3, 4, 5)).astype("float32")
    assert_equal_at_means(converted, model, x)


@pytest.mark.filterwarnings("ignore:.build... was called on:UserWarning")
def test_layers_behind_one_of_unknown_shape_have_their_weights(rng):
    model = chain(OfUnknownShape(), L.Dense(5), Late(), L.Dense(2))
    x = rng.normal(size=(2, 5)).astype("float32")
    model(x)
    bayesian = tfr.models.to_bayesian(model, initializer=None, **NUM)
    assert all(layer.built for layer in bayesian._flatten_layers())
    assert_equal_at_means(bayesian, model, x)
    with pytest.raises(ValueError, match="know the shapes of their outputs"):
        tfr.models.to_mc_dropout(model, **NUM)


def test_keras_may_add_biases_elsewhere_for_some_lengths(rng):
    inputs = keras.Input((2, None))
    convolution = L.Conv1D(4, 3, data_format="channels_first")
    hidden = L.Permute((2, 1))(convolution(inputs))
    model = keras.Model(inputs, L.Dense(2)(hidden))
    convolution.bias.assign(rng.normal(size=4))
    with pytest.warns(UserWarning, match="or may for inputs of some lengths"):
        converted = tfr.models.to_bayesian(model, **NUM)
    x = rng.normal(size=(3, 2, 9)).astype("float32")
    assert_equal_at_means(converted, model, x)
