"""Weights of examples in initializers."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import bayesian_linear
from tfp_refine import initializers
from tfp_refine import layers
from tfp_refine import losses
from tfp_refine import models

COUNTS = np.array([0, 1, 2, 3, 1] * 4)
KINDS = {
    "regression": (2, losses.GaussianNLL(0.7)),
    "noise": (4, losses.HeteroscedasticGaussianNLL()),
    "classes": (3, losses.CategoricalNLL()),
    "yes_or_no": (1, losses.BernoulliNLL()),
    "labels": (2, losses.BernoulliNLL()),
}


def draw(kind, rng):
    x = bayesian_linear.float32(rng.normal(size=(20, 4)))
    if kind in ("regression", "noise"):
        return x, bayesian_linear.float32(rng.normal(size=(20, 2)))
    if kind == "labels":
        return x, rng.integers(2, size=(20, 2))
    return x, rng.integers(KINDS[kind][0] if kind == "classes" else 2, size=20)


def initialized(kind, *data, make=initializers.IBLM, **arguments):
    outputs, loss = KINDS[kind]
    model = bayesian_linear.dense_model(4, outputs)
    model.compile("sgd", loss)
    make(seed=0, verbose=False, **arguments)(model, *data)
    return bayesian_linear.read(model.get_layer("linear"))


def assert_close(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("divergence", ["reverse", "forward"])
@pytest.mark.parametrize("kind", KINDS)
def test_whole_weights_repeat_examples(kind, divergence, rng):
    x, y = draw(kind, rng)
    # The noise that a model has now is that of the examples it sees first.
    arguments = {"divergence": divergence, "noise_variance": 0.3}
    found = initialized(kind, x, y, COUNTS, **arguments)
    repeated = (np.repeat(part, COUNTS, axis=0) for part in (x, y))
    assert_close(found, initialized(kind, *repeated, **arguments))


def test_hidden_units_count_weights_too(rng):
    x, y = draw("classes", rng)

    def first_layer(*data):
        inputs = keras.Input((4,))
        make = layers.DenseReparameterization
        hidden = make(6, "tanh", dtype="float64", name="linear")
        model = keras.Model(inputs, make(3, dtype="float64")(hidden(inputs)))
        # Each unit is fitted to all examples.
        alone = bayesian_linear.iblm(share_examples=False)
        alone(seed=0, verbose=False)(model, *data)
        return bayesian_linear.read(hidden)

    repeated = (np.repeat(part, COUNTS, axis=0) for part in (x, y))
    assert_close(first_layer(x, y, COUNTS), first_layer(*repeated))


def test_precisions_are_scaled_to_the_weights_of_all_examples(rng):
    # The mini-batch is not known, but all examples are the same.
    x, y = (np.tile(part[:1], (20, 1)) for part in draw("regression", rng))
    weights = 1 + np.arange(20) % 4
    _, found = initialized("regression", x, y, weights, output_batch_size=8)
    _, expected = initialized(
        "regression", *(np.repeat(part, weights, axis=0) for part in (x, y))
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_weights_of_one_change_no_bit(rng):
    x = rng.normal(size=(40, 3))
    y = rng.integers(3, size=40)

    def weights(*data):
        model = models.MLP((3,), 3, hidden=(5, 4), seed=1)
        initializers.IBLM(batch_size=8, seed=0, verbose=False)(model, *data)
        return model.get_weights()

    for one, other in zip(
        weights(x, y), weights(x, y, np.ones(40)), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_classes_have_weights(rng):
    x, y = draw("classes", rng)
    model = bayesian_linear.dense_model(4, 3)
    made = initializers.IBLM(seed=0, verbose=False)
    made(model, x, y, class_weight={0: 2.0, 2: 0.5})
    found = bayesian_linear.read(model.get_layer("linear"))
    weights = np.array([2.0, 1.0, 0.5])[y]
    for data in (
        (x, y, weights),
        (tf.data.Dataset.from_tensor_slices((x, y, weights)).batch(7),),
    ):
        for one, other in zip(
            found, initialized("classes", *data), strict=True
        ):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("make", [initializers.LSUV, initializers.Heuristic])
def test_weights_without_a_likelihood_have_no_effect_and_a_warning(make, rng):
    data = draw("classes", rng)
    expected = initialized("classes", *data, make=make)
    with pytest.warns(UserWarning, match=f"no effect on {make.__name__}"):
        found = initialized("classes", *data, COUNTS, make=make)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), "same number of examples"),
        (-COUNTS, "`sample_weight` must"),
        (np.zeros(20), "`sample_weight` must"),
        (np.eye(20)[3], "at least 2 examples whose weight is not 0.*: 1"),
        (np.ones((20, 2)), "one number for each example"),
    ],
)
def test_bad_weights_are_refused(weights, message, rng):
    with pytest.raises(ValueError, match=message):
        initialized("regression", *draw("regression", rng), weights)


def test_conversion_passes_weights_on(rng):
    x, y = draw("classes", rng)
    inputs = keras.Input((4,))
    model = keras.Model(inputs, keras.layers.Dense(3)(inputs))

    def converted(*data):
        return models.to_bayesian(
            model,
            num_train_examples=20,
            initializer=initializers.IBLM(seed=0, verbose=False),
            data=data,
        ).get_weights()

    repeated = (np.repeat(part, COUNTS, axis=0) for part in (x, y))
    for one, other in zip(
        converted(x, y, COUNTS), converted(*repeated), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
