"""Operations between and around the layers that are converted."""

import keras
import numpy as np
import pytest

import tfp_refine as tfr

L = keras.layers
NUM = {"num_train_examples": 5}


def normalized(rng):
    layer = L.Normalization()
    layer.adapt(rng.normal(3.0, 2.0, size=(50, 3)))
    inputs = keras.Input((3,))
    hidden = L.Dense(4, "relu")(layer(inputs))
    return keras.Model(inputs, L.Dense(2)(hidden)), rng.normal(size=(5, 3))


def with_operations(rng):
    inputs = keras.Input((3,))
    hidden = L.Dense(3)(inputs / 2.0) + inputs
    hidden = keras.ops.concatenate([keras.ops.relu6(hidden), inputs], axis=-1)
    return keras.Model(inputs, L.Dense(2)(hidden)), rng.normal(size=(5, 3))


def words():
    lookup = L.IntegerLookup()
    lookup.adapt([7, 8, 9, 9])
    inputs = keras.Input((4,), dtype="int64")
    hidden = L.Embedding(5, 3)(lookup(inputs))
    outputs = L.Dense(2)(L.Dense(3)(L.Flatten()(hidden)))
    return keras.Model(inputs, outputs), np.array([[7, 8, 9, 3]] * 5)


def masked(rng):
    inputs = keras.Input((4,), dtype="int32")
    hidden = L.LSTM(3)(L.Embedding(5, 3, mask_zero=True)(inputs))
    outputs = L.Dense(2)(L.Dense(3)(hidden))
    return keras.Model(inputs, outputs), rng.integers(0, 5, (5, 4))


MODELS = {
    "normalization": normalized,
    "operations": with_operations,
    "lookup": lambda rng: words(),
    "mask": masked,
}
CONVERSIONS = {
    "bayesian": lambda model: tfr.models.to_bayesian(model, **NUM),
    "deterministic": lambda model: tfr.models.to_deterministic(
        tfr.models.to_bayesian(model, **NUM)
    ),
    "dropout": lambda model: tfr.models.to_mc_dropout(model, 0.1, **NUM),
    "learned": lambda model: tfr.models.to_mc_dropout(
        model, 0.1, learn_rate=True, **NUM
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("conversion", CONVERSIONS)
@pytest.mark.filterwarnings("ignore:These layers:UserWarning")
@pytest.mark.filterwarnings("ignore:.*dropout.*:UserWarning")
def test_at_the_means_conversions_are_the_model(
    name, conversion, rng, tmp_path
):
    model, x = MODELS[name](rng)
    converted = CONVERSIONS[conversion](model)
    with tfr.layers.mean_weights():
        np.testing.assert_array_equal(converted(x), model(x))
        converted.save(tmp_path / "model.keras")
        loaded = keras.models.load_model(tmp_path / "model.keras")
        np.testing.assert_array_equal(loaded(x), model(x))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["normalization", "lookup"])
def test_a_member_of_an_ensemble_has_all_of_the_model(name, rng):
    model, x = MODELS[name](rng)
    bayesian = tfr.models.to_bayesian(model, **NUM)
    bayesian.compile("adam", tfr.losses.GaussianNLL(1.0))
    ensemble = tfr.refine(
        *(bayesian, x, rng.normal(size=(5, 2))),
        num_members=1,
        steps=1,
        seed=1,
        verbose=0,
    )
    draws = tfr.predict(ensemble.member(0), x, num_samples=2000, seed=1)
    expected = ensemble.predict(x, num_samples=2000, seed=2)
    # Six standard errors of each difference of two means.
    errors = np.sqrt((draws.var(axis=0) + expected.var(axis=0)) / 2000)
    difference = np.abs(draws.mean(axis=0) - expected.mean(axis=0))
    assert np.max(difference / errors) < 6.0


def loss_of_mine(y, outputs):
    return keras.ops.mean(keras.ops.abs(y - outputs), axis=-1)


@pytest.mark.slow
@pytest.mark.parametrize("sequential", [True, False])
@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_copies_are_not_compiled_and_the_model_stays_so(conversion, sequential):
    inputs = keras.Input((3,))
    layers = [L.Dense(4), L.Dense(2)]
    model = keras.Sequential([inputs, *layers])
    if not sequential:
        model = keras.Model(inputs, layers[1](layers[0](inputs)))
    model.compile(keras.optimizers.SGD(lambda: 0.1), loss_of_mine)
    assert not CONVERSIONS[conversion](model).compiled
    assert model.compiled
    model.fit(np.zeros((2, 3)), np.zeros((2, 2)), verbose=0)


class Doubled(L.Layer):
    def call(self, inputs):
        return 2.0 * inputs


class Unnamed(L.Layer):
    """Does not say how it was made."""

    def __init__(self, function):
        super().__init__(name="secret")
        self.function = function

    def build(self, shape):
        self.factor = self.add_weight(shape=(shape[-1],), initializer="ones")

    def call(self, inputs):
        return self.function(self.factor * inputs)


class Scale(L.Layer):
    """Leaves it to Keras to say how it was made, without its name."""

    def __init__(self, size, **options):
        super().__init__(**options)
        self.size = size

    def build(self, shape):
        self.scale = self.add_weight(shape=(self.size,), initializer="ones")

    def call(self, inputs):
        return self.scale * inputs


class Failing(Scale):
    def get_config(self):
        return {"length": self.length}


class Another(Scale):
    @classmethod
    def from_config(cls, config):
        raise ValueError(f"cannot make {sorted(config)}")


def around(layer):
    return keras.Sequential([keras.Input((3,)), L.Dense(3), layer, L.Dense(2)])


def test_layers_of_users_are_kept_and_named(rng):
    model, x = around(Doubled(name="mine")), rng.normal(size=(2, 3))
    with pytest.warns(UserWarning, match="stay without posteriors.*mine"):
        bayesian = tfr.models.to_bayesian(model, **NUM)
    with tfr.layers.mean_weights():
        np.testing.assert_array_equal(bayesian(x), model(x))


@pytest.mark.slow
@pytest.mark.parametrize("conversion", CONVERSIONS)
@pytest.mark.filterwarnings("ignore:These layers:UserWarning")
@pytest.mark.filterwarnings("ignore:.*dropout.*:UserWarning")
def test_layers_that_do_not_say_how_they_were_made_are_kept_and_named(
    conversion, rng
):
    model, x = around(Unnamed(keras.ops.tanh)), rng.normal(size=(2, 3))
    with pytest.warns(UserWarning, match="'secret', an? Unnamed, is kept its"):
        converted = CONVERSIONS[conversion](model)
    with tfr.layers.mean_weights():
        np.testing.assert_array_equal(converted(x), model(x))
    assert converted.get_layer("secret") is model.get_layer("secret")
    converted.compile("sgd", "mse")
    converted.fit(x, np.ones((2, 2)), verbose=0)
    assert np.all(np.array(model.get_layer("secret").factor) != 1.0)


@pytest.mark.parametrize("conversion", CONVERSIONS)
@pytest.mark.filterwarnings("ignore:These layers:UserWarning")
@pytest.mark.filterwarnings("ignore:.*dropout.*:UserWarning")
def test_copies_have_the_names_and_weights_of_the_layers(conversion, rng):
    model, x = around(Scale(3)), rng.normal(size=(2, 3))
    layer = model.layers[1]
    layer.scale.assign([1.0, 2.0, 3.0])
    converted = CONVERSIONS[conversion](model)
    with tfr.layers.mean_weights():
        np.testing.assert_array_equal(converted(x), model(x))
    copied = converted.get_layer(layer.name)
    assert copied is not layer
    np.testing.assert_array_equal(copied.scale, layer.scale)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (Failing(3, name="mine"), "AttributeError: .*'length'"),
        (Another(3, name="mine"), "ValueError: cannot make .'dtype', 'name'"),
        (
            L.TimeDistributed(L.Lambda(lambda x: 2.0 * x), name="mine"),
            "ValueError: .*Lambda",
        ),
    ],
    ids=["configuration", "making", "lambda"],
)
@pytest.mark.parametrize("conversion", ["bayesian", "deterministic", "dropout"])
@pytest.mark.filterwarnings("ignore:These layers:UserWarning")
@pytest.mark.filterwarnings("ignore:.*dropout.*:UserWarning")
def test_whatever_fails_in_a_layer_it_is_kept_and_named(
    conversion, layer, message, rng
):
    model = keras.Sequential(
        [keras.Input((4, 3)), L.Dense(3), layer, L.Dense(2)]
    )
    x = rng.normal(size=(2, 4, 3)).astype("float32")
    model(x)
    with pytest.warns(
        UserWarning, match=f"'mine', .* is kept itself.*{message}"
    ):
        converted = CONVERSIONS[conversion](model)
    with tfr.layers.mean_weights():
        np.testing.assert_array_equal(converted(x), model(x))
    assert converted.get_layer("mine") is layer


def test_the_regularizer_of_a_point_estimate_is_kept():
    model = keras.Sequential(
        [
            keras.Input((3,)),
            tfr.layers.DenseFlipout(
                2,
                kernel_posterior=None,
                kernel_regularizer="l2",
                bias_initializer="ones",
                **NUM,
            ),
        ]
    )
    network = tfr.models.to_deterministic(model)
    (layer,) = network.layers
    assert isinstance(layer.kernel_regularizer, keras.regularizers.L2)
    assert layer.bias_regularizer is None


class OfTwoUnits(keras.Model):
    """A functional model whose constructor is its own."""

    def __init__(self, **options):
        inputs = keras.Input((3,))
        hidden = L.Dense(3)(inputs)
        super().__init__(inputs, L.Dense(2)(hidden), **options)

    def train_step(self, data):
        raise NotImplementedError


class Tripled(OfTwoUnits):
    def call(self, inputs):
        return 3.0 * super().call(inputs)


class Plain(keras.Model):
    """A functional model with the constructor of `keras.Model`."""

    train_step = OfTwoUnits.train_step


class OfFunction(OfTwoUnits):
    """Does not say how it was made."""

    def __init__(self, function, **options):
        super().__init__(**options)
        self.function = function


class CalledFunction(OfFunction):
    def call(self, inputs):
        return self.function(super().call(inputs))


def inside_another(model):
    inputs = keras.Input((3,))
    return keras.Model(inputs, L.Dense(2)(model(inputs)))


@pytest.mark.parametrize("around", [lambda model: model, inside_another])
@pytest.mark.parametrize("kind", [OfTwoUnits, Tripled])
def test_a_functional_subclass_keeps_its_class_and_its_call(kind, around, rng):
    model, x = around(kind(name="mine")), rng.normal(size=(4, 3))
    bayesian = tfr.models.to_bayesian(model, **NUM)
    for converted in (bayesian, tfr.models.to_deterministic(bayesian)):
        found = [isinstance(v, kind) for v in converted._flatten_layers()]
        assert sum(found) == 1
        with tfr.layers.mean_weights():
            np.testing.assert_array_equal(converted(x), model(x))


@pytest.mark.parametrize("conversion", ["bayesian", "deterministic", "dropout"])
def test_a_subclass_that_comes_back_as_functional_is_told(conversion, rng):
    around = {"dropout": lambda model: model}.get(conversion, inside_another)
    model, x = around(OfFunction(abs, name="mine")), rng.normal(size=(4, 3))
    message = "'mine', a OfFunction, is a plain Functional .*`train_step`"
    with pytest.warns(UserWarning, match=message):
        converted = CONVERSIONS[conversion](model)
    with tfr.layers.mean_weights():
        np.testing.assert_array_equal(converted(x), model(x))
    with pytest.raises(ValueError, match="'mine', a CalledFun.* its own"):
        CONVERSIONS[conversion](around(CalledFunction(abs, name="mine")))


def test_a_subclass_with_the_usual_constructor_is_kept():
    inputs = keras.Input((3,))
    model = Plain(inputs, L.Dense(2)(L.Dense(3)(inputs)))
    assert type(tfr.models.to_bayesian(model, **NUM)) is Plain
