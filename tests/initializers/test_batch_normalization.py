import keras
import numpy as np
import pytest

from tests.support import bayesian_linear
from tfp_refine import initializers
from tfp_refine import layers

INITIALIZERS = {
    "iblm": lambda **arguments: initializers.IBLM(verbose=False, **arguments),
    "lsuv": lambda **arguments: initializers.LSUV(verbose=False, **arguments),
}
every_initializer = pytest.mark.parametrize(
    "make_initializer", INITIALIZERS.values(), ids=INITIALIZERS
)


def dense(units, **arguments):
    return layers.DenseReparameterization(
        units, **bayesian_linear.still(**arguments)
    )


def make():
    """Returns a model whose draws are its means, as good as."""
    inputs = keras.Input((4,))
    x = keras.layers.BatchNormalization(momentum=0.9)(inputs)
    x = dense(6)(x)
    x = keras.layers.BatchNormalization(name="middle")(x)
    x = keras.layers.ReLU()(x)
    return keras.Model(inputs, dense(2)(x))


@pytest.fixture
def data(rng):
    x = 3.0 * rng.normal(size=(100, 4)) + 5.0
    return x.astype("float32"), rng.integers(2, size=100)


def normalizations(model):
    return [
        layer
        for layer in model._flatten_layers()
        if isinstance(layer, keras.layers.BatchNormalization)
    ]


def statistics(model):
    return [
        np.array(v)
        for layer in normalizations(model)
        for v in (layer.moving_mean, layer.moving_variance)
    ]


@every_initializer
def test_moving_statistics_are_those_of_the_initialized_network(
    make_initializer, data
):
    model = make()
    make_initializer(seed=0)(model, *data)
    x, _ = data
    first, second = normalizations(model)
    found = statistics(model)
    # All examples are one batch.
    np.testing.assert_allclose(found[0], np.mean(x, axis=0), rtol=1e-4)
    np.testing.assert_allclose(found[1], np.var(x, axis=0), rtol=1e-4)
    hidden = np.asarray(model.layers[2](first(x, training=True)), np.float64)
    np.testing.assert_allclose(
        found[2], np.mean(hidden, axis=0), rtol=1e-3, atol=1e-4
    )
    np.testing.assert_allclose(found[3], np.var(hidden, axis=0), rtol=1e-3)


@every_initializer
def test_inference_works_at_once(make_initializer, data):
    model = make()
    make_initializer(seed=0)(model, *data)
    x, _ = data
    found = model(x, training=False)
    expected = model(x, training=True)
    np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-2)


@every_initializer
def test_momenta_come_back_and_other_weights_stay(make_initializer, data):
    model = make()
    make_initializer(seed=0)(model, *data)
    assert [layer.momentum for layer in normalizations(model)] == [0.9, 0.99]
    for layer in normalizations(model):
        np.testing.assert_array_equal(layer.gamma, np.ones(layer.gamma.shape))
        np.testing.assert_array_equal(layer.beta, np.zeros(layer.beta.shape))


def test_momenta_come_back_after_an_interruption(data, monkeypatch):
    model = make()
    second = normalizations(model)[1]
    call = type(second).call

    def fail(self, *args, **kwargs):
        if self is second and self.momentum == 0.0:
            raise KeyboardInterrupt
        return call(self, *args, **kwargs)

    monkeypatch.setattr(keras.layers.BatchNormalization, "call", fail)
    before = statistics(model)
    with pytest.raises(KeyboardInterrupt):
        INITIALIZERS["iblm"](seed=0)(model, *data)
    assert [layer.momentum for layer in normalizations(model)] == [0.9, 0.99]
    for one, other in zip(before, statistics(model), strict=True):
        np.testing.assert_array_equal(one, other)


@every_initializer
def test_frozen_statistics_stay(make_initializer, data):
    model = make()
    model.get_layer("middle").trainable = False
    before = statistics(model)
    make_initializer(seed=0)(model, *data)
    after = statistics(model)
    for one, other in zip(before[2:], after[2:], strict=True):
        np.testing.assert_array_equal(one, other)
    assert np.all(after[0] != before[0])
