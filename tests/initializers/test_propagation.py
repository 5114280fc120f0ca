import warnings

import keras
import numpy as np
import pytest

from tests.support import bayesian_linear
from tfp_refine import initializers
from tfp_refine import layers
from tfp_refine.initializers import traversal

NUM = 60
NOISE = 0.5


def dense(units, activation=None, **arguments):
    """Returns a layer whose draws are its means, as good as."""
    return layers.DenseReparameterization(
        units, activation, **bayesian_linear.still(**arguments)
    )


def conv(filters, **arguments):
    return layers.Conv2DReparameterization(
        filters,
        3,
        padding="same",
        activation="relu",
        **bayesian_linear.still(**arguments),
    )


def residual():
    inputs = keras.Input((4,))
    x = dense(5, "tanh")(inputs)
    x = keras.layers.Add()([x, dense(5, "tanh")(x)])
    return keras.Model(inputs, dense(2, name="last")(x))


def branches():
    inputs = keras.Input((4,))
    left = dense(3, "relu")(inputs)
    right = dense(3, "tanh")(dense(4, "relu")(inputs))
    x = keras.layers.Concatenate()([left, right, inputs])
    return keras.Model(inputs, dense(2, name="last")(x))


def images():
    inputs = keras.Input((6, 6, 2))
    x = conv(3)(inputs)
    x = keras.layers.MaxPooling2D()(x)
    x = keras.layers.Add()([x, conv(3)(x)])
    x = keras.layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, dense(2, name="last")(x))


def sequential():
    return keras.Sequential(
        [dense(5, "relu"), dense(5, "relu"), dense(2, name="last")]
    )


def nested():
    inner_inputs = keras.Input((5,))
    inner = keras.Model(inner_inputs, dense(4, "relu")(inner_inputs))
    inputs = keras.Input((4,))
    x = inner(dense(5, "relu")(inputs))
    return keras.Model(inputs, dense(2, name="last")(x))


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.last = dense(2, name="last")
        self.first = [dense(5, "relu"), dense(3, "tanh")]

    def call(self, inputs):
        x = inputs
        for layer in self.first:
            x = layer(x)
        return self.last(keras.ops.concatenate([x, inputs], axis=-1))


def shared():
    inputs = keras.Input((4,))
    layer = dense(4, "tanh")
    x = layer(layer(inputs))
    return keras.Model(inputs, dense(2, name="last")(x))


def normalized():
    inputs = keras.Input((4,))
    x = keras.layers.BatchNormalization()(inputs)
    x = dense(5, use_bias=False)(x)
    x = keras.layers.ReLU()(keras.layers.BatchNormalization()(x))
    return keras.Model(inputs, dense(2, name="last")(x))


def with_deterministic_layers():
    return keras.Sequential(
        [
            keras.layers.Dense(6, "relu"),
            dense(5, "relu"),
            keras.layers.Dense(4, "tanh"),
            dense(2, name="last"),
        ]
    )


MODELS = {
    function.__name__: function
    for function in (
        residual,
        branches,
        images,
        sequential,
        nested,
        Subclassed,
        shared,
        normalized,
        with_deterministic_layers,
    )
}
every_model = pytest.mark.parametrize("make_model", MODELS.values(), ids=MODELS)


def draw(rng, make_model):
    shape = (6, 6, 2) if make_model is images else (4,)
    x = bayesian_linear.float32(rng.normal(size=(NUM, *shape)))
    return x, bayesian_linear.float32(rng.normal(size=(NUM, 2)))


def initialize(model, x, y, **arguments):
    arguments = {
        "noise_variance": NOISE,
        "prior_variance": 0.3,
        "bias_prior_variance": 2.0,
        "seed": 0,
        "verbose": False,
        **arguments,
    }
    return initializers.IBLM(**arguments)(model, x, y)


def first_inputs(model, x, **arguments):
    """Returns the inputs of the first call of each layer, in their order."""
    seen = {}
    with layers.observe_inputs(
        lambda layer, inputs: seen.setdefault(layer.name, inputs)
    ):
        model(x, **arguments)
    return seen


@pytest.fixture
def propagated(monkeypatch):
    """Arguments and result of a call of `layer_inputs`."""
    calls = []
    compute = traversal.layer_inputs

    def spy(model, call, x):
        inputs = compute(model, call, x)
        calls.append((call.layer.name, x, inputs[0]))
        return inputs

    monkeypatch.setattr(traversal, "layer_inputs", spy)
    return calls


@pytest.mark.slow
@every_model
def test_layers_see_what_the_new_layers_before_them_compute(
    make_model, propagated, rng
):
    model = make_model()
    initialize(model, *draw(rng, make_model))
    order = list(first_inputs(model, propagated[0][1]))
    assert [name for name, _, _ in propagated] == order
    for name, x, inputs in propagated:
        expected = first_inputs(model, x, training=True)[name]
        np.testing.assert_allclose(inputs, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@every_model
def test_the_last_layer_is_fitted_to_the_targets(make_model, rng):
    x, y = draw(rng, make_model)
    model = make_model()
    initialize(model, x, y)
    rows = first_inputs(model, x.astype("float32"), training=True)["last"]
    rows = bayesian_linear.with_ones(np.asarray(rows, np.float64))
    prior = [0.3] * (rows.shape[1] - 1) + [2.0]
    expected, _ = bayesian_linear.posterior(rows, y, NOISE, prior)
    found, _ = bayesian_linear.read(last_of(model))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def last_of(model):
    return next(v for v in model._flatten_layers() if v.name == "last")


@pytest.mark.slow
@every_model
def test_every_variational_layer_changes(make_model, rng):
    x, y = draw(rng, make_model)
    model = make_model()
    model(x[:2])
    before = {
        layer.name: np.array(layer.kernel)
        for layer in model._flatten_layers()
        if isinstance(layer, layers.VariationalLayer)
    }
    initialize(model, x, y)
    for layer in model._flatten_layers():
        if layer.name in before:
            assert np.all(np.asarray(layer.kernel) != before[layer.name])
            assert layer.bias is None or np.all(np.asarray(layer.bias) != 0)


def test_deterministic_layers_stay(rng):
    model = with_deterministic_layers()
    x, y = draw(rng, None)
    model(x[:2])
    plain = [v for v in model.layers if isinstance(v, keras.layers.Dense)]
    before = [np.array(v) for layer in plain for v in layer.variables]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        initialize(model, x, y)
    after = [v for layer in plain for v in layer.variables]
    assert len(after) == 4
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def test_random_weights_are_drawn_and_not_averaged(propagated, rng):
    x, y = draw(rng, None)
    model = keras.Sequential(
        [
            layers.DenseReparameterization(5, use_bias=False, seed=1),
            layers.DenseReparameterization(2, seed=2),
        ]
    )
    initialize(model, x, y)
    _, batch, inputs = propagated[-1]
    with layers.mean_weights():
        means = model.layers[0](batch)
    scale = model.layers[0].variational_weights[0].scale
    stddev = np.sqrt(np.square(batch) @ np.square(scale))
    z = np.asarray((inputs - means) / stddev)
    # Outputs of one draw of 20 weights: they are all within 6 standard
    # deviations but for 1e-6 (300 numbers, 2e-9 each).
    assert np.max(np.abs(z)) < 6.0
    # A chi square of 20 weights in 5 units: far from zero but for 1e-9.
    assert np.mean(z**2) > 0.01


def test_dropout_is_active(propagated, rng):
    x, y = draw(rng, None)
    model = keras.Sequential(
        [
            dense(20, "tanh"),
            keras.layers.Dropout(0.4, seed=1),
            dense(2, name="last"),
        ]
    )
    initialize(model, x, y)
    name, _, inputs = propagated[-1]
    assert name == "last"
    # 1200 numbers: between, but for 1e-12 (7 standard deviations).
    assert 0.3 < np.mean(np.asarray(inputs) == 0.0) < 0.5


@pytest.mark.parametrize("index", [0, 1, 2])
def test_frozen_layers_are_named_in_a_warning_and_stay(index, propagated, rng):
    x, y = draw(rng, None)
    model = sequential()
    model(x[:2])
    frozen = model.layers[index]
    frozen.trainable = False
    before = [np.array(v) for v in frozen.weights]
    with pytest.warns(UserWarning, match=f"frozen .*'{frozen.name}'"):
        initialize(model, x, y)
    for one, other in zip(before, frozen.weights, strict=True):
        np.testing.assert_array_equal(one, other)
    names = [layer.name for layer in model.layers if layer is not frozen]
    assert [name for name, _, _ in propagated] == names


def test_layers_without_a_posterior_of_the_kernel_are_named(rng):
    x, y = draw(rng, None)
    point = layers.DenseReparameterization(
        4, kernel_posterior=None, kernel_regularizer=None, name="point"
    )
    model = keras.Sequential([point, dense(2)])
    model(x[:2])
    before = [np.array(v) for v in point.weights]
    with pytest.warns(UserWarning, match=r"unknown kind: \['point'\]"):
        initialize(model, x, y)
    for one, other in zip(before, point.weights, strict=True):
        np.testing.assert_array_equal(one, other)


# Posteriors of other families.


@pytest.mark.parametrize("family", ["mean_field", "low_rank", "k_tied"])
def test_models_of_each_family_get_the_means_of_the_regression(family, rng):
    x, y = draw(rng, None)
    inputs = keras.Input((4,))
    layer = layers.DenseFlipout(2, kernel_posterior=family, dtype="float64")
    model = keras.Model(inputs, layer(inputs))
    initialize(model, x, y)
    expected, precision = bayesian_linear.posterior(
        bayesian_linear.with_ones(x), y, NOISE, [0.3] * 4 + [2.0]
    )
    mean, _ = bayesian_linear.read(layer)
    np.testing.assert_allclose(mean, expected, rtol=1e-8)
    variance = bayesian_linear.inverse_diagonals(precision)[:-1]
    kernel = layer.variational_weights[0]
    if family != "k_tied":
        np.testing.assert_allclose(
            kernel.independent_scale, np.sqrt(variance), rtol=1e-8
        )


def test_flows_have_the_mean_of_the_regression(rng):
    x, y = draw(rng, None)
    last = layers.DenseMNF(2, dtype="float64", seed=2)
    model = keras.Sequential([keras.Input((4,)), last])
    initialize(model, x, y)
    expected, precision = bayesian_linear.posterior(
        bayesian_linear.with_ones(x), y, NOISE, [0.3] * 4 + [2.0]
    )
    mean, variance = bayesian_linear.read(last)
    np.testing.assert_allclose(mean, expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        variance, bayesian_linear.inverse_diagonals(precision), rtol=1e-7
    )


def test_convolutions_with_flows_work(rng):
    model = keras.Sequential(
        [
            layers.Conv2DMNF(4, 3, activation="relu", seed=1),
            keras.layers.Flatten(),
            layers.DenseMNF(2, seed=2),
        ]
    )
    x, y = draw(rng, images)
    initialize(model, x, y)
    assert np.all(np.isfinite(model(x.astype("float32"))))
    mean = model.layers[0].variational_weights[0].mean("float32")
    assert np.max(np.abs(mean)) > 1e-3
