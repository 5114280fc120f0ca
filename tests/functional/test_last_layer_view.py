import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.dense_models import CLASSES
from tests.support.dense_models import LOGITS
from tests.support.dense_models import NUM
from tests.support.dense_models import SIZE
from tests.support.dense_models import Subclassed
from tests.support.dense_models import assert_untouched
from tests.support.dense_models import every_model
from tests.support.dense_models import only_the_head
from tests.support.dense_models import randomize
from tests.support.dense_models import sequential
from tests.support.dense_models import subclassed
from tests.support.dense_models import without_bias
from tfp_refine import functional


@pytest.fixture
def x(rng):
    return tf.constant(rng.standard_normal((NUM, SIZE)), tf.float32)


@every_model
def test_last_dense_is_found(make, x):
    model = randomize(make())
    view = functional.LastLayerView(model)
    view.fit_inputs(x)
    assert view.layer.name == "head"
    assert view.num_outputs == CLASSES
    assert_untouched(model)


@pytest.mark.slow
@every_model
def test_features_and_loc_reproduce_the_model(make, x):
    model = randomize(make())
    view = functional.LastLayerView(model)
    view.fit_inputs(x)
    features = view.inputs(x, batch_size=5)
    assert features.shape == (NUM, view.num_features)
    assert view.size == CLASSES * view.num_features == len(view.params())
    np.testing.assert_allclose(
        view.outputs(tf.constant(view.params()), features),
        model(x, training=False),
        rtol=1e-5,
        atol=1e-5,
    )
    assert view.find_activation(x, LOGITS) == "linear"
    assert_untouched(model)


def test_subclassed_model_is_searched_once_called(x):
    view = functional.LastLayerView(subclassed())
    assert view.layer is None
    view.fit_inputs(x)
    assert view.layer.name == "head"


def test_integer_inputs_are_searched_with(rng):
    class Embedded(keras.Model):
        def __init__(self):
            super().__init__()
            self.head = keras.layers.Dense(CLASSES, name="head")
            self.embedding = keras.layers.Embedding(7, 4)

        def call(self, inputs):
            return self.head(self.embedding(inputs)[:, 0])

    model = Embedded()
    x = tf.constant(rng.integers(7, size=(NUM, 1)), tf.int32)
    expected = model(x)
    view = functional.LastLayerView(model)
    view.fit_inputs(x)
    np.testing.assert_allclose(
        view.outputs(tf.constant(view.params()), view.inputs(x, NUM)),
        expected,
        atol=1e-6,
    )


def test_nested_inputs_are_searched_with(rng):
    inputs = {
        "a": keras.Input((2,), name="a"),
        "b": keras.Input((3,), name="b"),
    }
    joined = keras.layers.Concatenate()([inputs["a"], inputs["b"]])
    model = keras.Model(inputs, keras.layers.Dense(CLASSES)(joined))
    x = {
        "a": tf.constant(rng.standard_normal((NUM, 2)), tf.float32),
        "b": tf.constant(rng.standard_normal((NUM, 3)), tf.float32),
    }
    view = functional.LastLayerView(model)
    view.fit_inputs(x)
    features = view.inputs(x, 5)
    np.testing.assert_allclose(features[:, :2], x["a"])
    np.testing.assert_allclose(features[:, 2:5], x["b"])


def test_loc_is_row_by_row_with_the_bias_last():
    model = randomize(only_the_head())
    kernel, bias = (keras.ops.convert_to_numpy(w) for w in model.weights)
    loc = functional.LastLayerView(model).params()
    assert loc.dtype == np.float64
    theta = loc.reshape(CLASSES, SIZE + 1)
    np.testing.assert_array_equal(theta[:, :-1], kernel.T)
    np.testing.assert_array_equal(theta[:, -1], bias)


def test_loc_without_bias_is_the_kernel():
    view = functional.LastLayerView(randomize(without_bias()))
    assert view.num_features == 4
    np.testing.assert_array_equal(
        view.params().reshape(CLASSES, 4),
        keras.ops.convert_to_numpy(view.layer.kernel).T,
    )


@pytest.mark.parametrize("make", [sequential, without_bias])
def test_an_assigned_vector_is_the_models(make, x):
    model = randomize(make())
    view = functional.LastLayerView(model)
    params, fixed = 2.0 * view.params(), view.fixed()
    view.find_activation(x, LOGITS)
    expected = view.call(x, params, fixed, key=0)
    view.assign(params, fixed)
    np.testing.assert_allclose(view.params(), params)
    np.testing.assert_allclose(model(x), expected, rtol=1e-5, atol=1e-6)


def test_features_are_the_inputs_and_a_one(x):
    view = functional.LastLayerView(only_the_head())
    features = view.inputs(x, batch_size=NUM)
    assert features.dtype == np.float32
    np.testing.assert_array_equal(features[:, :-1], x)
    np.testing.assert_array_equal(features[:, -1], 1.0)


def test_features_follow_new_weights_of_the_model(x):
    model = randomize(sequential())
    view = functional.LastLayerView(model)
    before = view.inputs(x, NUM)
    randomize(model, seed=2)
    after = view.inputs(x, NUM)
    assert np.abs(after - before).max() > 0.1
    np.testing.assert_allclose(
        view.outputs(tf.constant(view.params()), after),
        model(x, training=False),
        atol=1e-5,
    )


def test_outputs_of_many_weights_are_those_of_each(x, rng):
    view = functional.LastLayerView(only_the_head())
    features = view.inputs(x, NUM)
    theta = tf.constant(rng.standard_normal((2, 4, view.size)))
    outputs = view.outputs(theta, features)
    assert outputs.shape == (2, 4, NUM, CLASSES)
    for index in np.ndindex(2, 4):
        np.testing.assert_allclose(
            outputs[index], view.outputs(theta[index], features)
        )


def test_progress_is_told(x):
    view = functional.LastLayerView(only_the_head())
    told = []
    view.inputs(x, batch_size=5, on_batch=told.append)
    assert told == [5, 10, NUM]


@pytest.mark.parametrize(
    "make_activation",
    [
        lambda: keras.layers.Activation("softmax"),
        lambda: keras.layers.Softmax(),
    ],
)
def test_activation_layers_after_the_dense_are_found(make_activation, x):
    model = randomize(
        keras.Sequential(
            [
                keras.Input((SIZE,)),
                keras.layers.Dense(CLASSES, name="head"),
                make_activation(),
            ]
        )
    )
    view = functional.LastLayerView(model)
    assert view.layer.name == "head"
    assert view.find_activation(x, LOGITS) == "softmax"
    features = view.inputs(x, NUM)
    np.testing.assert_allclose(
        tf.nn.softmax(view.outputs(tf.constant(view.params()), features)),
        model(x),
        atol=1e-6,
    )


@pytest.mark.parametrize("activation", ["softmax", "linear"])
def test_activation_of_the_dense_is_found(activation, x):
    model = keras.Sequential(
        [
            keras.Input((SIZE,)),
            keras.layers.Dense(CLASSES, activation=activation),
        ]
    )
    view = functional.LastLayerView(randomize(model))
    assert view.find_activation(x, LOGITS) == activation


def test_sigmoid_is_found(x):
    model = keras.Sequential(
        [keras.Input((SIZE,)), keras.layers.Dense(1, activation="sigmoid")]
    )
    view = functional.LastLayerView(randomize(model))
    activations = functional.likelihoods.Bernoulli.activations
    assert view.find_activation(x, activations) == "sigmoid"


def test_half_precision_is_close_enough(x):
    with_policy = keras.Sequential(
        [
            keras.Input((SIZE,)),
            keras.layers.Dense(4, activation="tanh", dtype="mixed_float16"),
            keras.layers.Dense(CLASSES, dtype="mixed_float16"),
        ]
    )
    view = functional.LastLayerView(randomize(with_policy))
    assert view.find_activation(x, LOGITS) == "linear"
    assert view.inputs(x, NUM).dtype == np.float32


def test_a_layer_that_is_called_by_keyword_is_seen(x):
    class ByKeyword(Subclassed):
        def call(self, inputs):
            return self.head(inputs=self.hidden(inputs=inputs))

    model = ByKeyword()
    expected = model(x)
    view = functional.LastLayerView(model)
    view.fit_inputs(x)
    np.testing.assert_allclose(
        view.outputs(tf.constant(view.params()), view.inputs(x, NUM)),
        expected,
        atol=1e-6,
    )
