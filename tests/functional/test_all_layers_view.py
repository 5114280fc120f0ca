import keras
import numpy as np
import pytest
import tensorflow as tf

from tfp_refine import functional

NUM, SIZE, CLASSES = 10, 5, 3


def make_model(activation=None, middle=()):
    model = keras.Sequential(
        [
            keras.Input((SIZE,)),
            keras.layers.Dense(4, activation="tanh"),
            *middle,
            keras.layers.Dense(CLASSES, activation=activation),
        ]
    )
    rng = np.random.default_rng(1)
    for weight in model.trainable_weights:
        weight.assign(0.5 * rng.standard_normal(weight.shape))
    return model


@pytest.fixture
def x(rng):
    return tf.constant(rng.standard_normal((NUM, SIZE)), tf.float32)


def split(model, theta):
    """Cuts weights by the shapes of the trainable variables."""
    parts = []
    for variable in model.trainable_variables:
        count = int(np.prod(variable.shape))
        parts.append(np.reshape(theta[:count], variable.shape))
        theta = theta[count:]
    assert len(theta) == 0
    return parts


@pytest.mark.parametrize("activation", [None, "softmax"])
def test_outputs_at_loc_are_the_logits_of_the_model(activation, x):
    model = make_model(activation)
    view = functional.AllLayersView(model)
    found = view.outputs(tf.constant(view.params(), tf.float32), x)
    assert found.shape == (NUM, CLASSES)
    hidden = keras.ops.convert_to_numpy(model.layers[0](x))
    kernel, bias = model.layers[-1].get_weights()
    np.testing.assert_allclose(found, hidden @ kernel + bias, atol=1e-5)
    applied = tf.nn.softmax(found) if activation else found
    np.testing.assert_allclose(applied, model(x), atol=1e-5)


def test_order_is_that_of_the_trainable_variables(x, rng):
    model = make_model()
    view = functional.AllLayersView(model)
    assert view.size == SIZE * 4 + 4 + 4 * CLASSES + CLASSES
    assert view.params().dtype == np.float64
    for part, variable in zip(
        split(model, view.params()), model.trainable_variables, strict=True
    ):
        np.testing.assert_array_equal(part, variable)
    theta = rng.standard_normal(view.size).astype(np.float32)
    found = view.outputs(tf.constant(theta), x)
    for part, variable in zip(
        split(model, theta), model.trainable_variables, strict=True
    ):
        variable.assign(part)
    np.testing.assert_allclose(found, model(x), atol=1e-5)


def test_many_weights_give_the_outputs_of_each(x, rng):
    view = functional.AllLayersView(make_model("softmax"))
    theta = tf.constant(rng.standard_normal((6, view.size)), tf.float32)
    found = view.outputs(theta, x)
    assert found.shape == (6, NUM, CLASSES)
    for one, expected in zip(found, theta, strict=True):
        np.testing.assert_allclose(one, view.outputs(expected, x), atol=1e-5)


@pytest.mark.parametrize("many", [False, True])
def test_gradients_are_those_of_the_model(many, x):
    model = make_model()
    view = functional.AllLayersView(model)
    theta = tf.constant(view.params(), tf.float32)
    theta = tf.stack([theta, 2 * theta]) if many else theta
    with tf.GradientTape() as tape:
        tape.watch(theta)
        loss = tf.reduce_sum(tf.square(view.outputs(theta, x)))
    found = tape.gradient(loss, theta)
    found = found[0] if many else found
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(model(x)))
    expected = tape.gradient(loss, [v.value for v in model.trainable_variables])
    np.testing.assert_allclose(
        found,
        np.concatenate([np.ravel(one) for one in expected]),
        rtol=1e-3,
        atol=1e-4,
    )


def test_outputs_are_compiled(x):
    view = functional.AllLayersView(make_model())
    program = tf.function(view.outputs)
    theta = tf.constant(np.stack([view.params(), -view.params()]), tf.float32)
    np.testing.assert_allclose(
        program(theta, x), view.outputs(theta, x), atol=1e-5
    )


def test_statistics_of_batch_normalization_are_no_weights(x, rng):
    model = make_model(middle=[keras.layers.BatchNormalization()])
    norm = model.layers[1]
    norm.moving_mean.assign(rng.standard_normal(4))
    norm.moving_variance.assign(rng.uniform(0.5, 2.0, 4))
    view = functional.AllLayersView(model)
    assert view.size == len(
        np.concatenate([np.ravel(v) for v in model.trainable_variables])
    )
    np.testing.assert_allclose(
        view.outputs(tf.constant(view.params(), tf.float32), x),
        model(x, training=False),
        atol=1e-5,
    )


def test_frozen_layers_are_no_weights_but_count(x):
    model = make_model()
    model.layers[0].trainable = False
    view = functional.AllLayersView(model)
    assert view.size == 4 * CLASSES + CLASSES
    np.testing.assert_allclose(
        view.outputs(tf.constant(view.params(), tf.float32), x),
        model(x),
        atol=1e-5,
    )


def test_the_model_is_not_changed(x, rng):
    model = make_model()
    before = model.get_weights()
    view = functional.AllLayersView(model)
    view.outputs(
        tf.constant(rng.standard_normal((2, view.size)), tf.float32), x
    )
    for one, other in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert not any("call" in v.__dict__ for v in model._flatten_layers())


def test_inputs_are_passed_on(x):
    assert functional.AllLayersView(make_model()).inputs(x, 3) is x


def test_model_without_trainable_weights_is_refused():
    model = make_model()
    model.trainable = False
    with pytest.raises(ValueError, match="no trainable weights"):
        functional.AllLayersView(model)
