import keras
import numpy as np
import pytest
import tensorflow as tf

from tfp_refine import initializers
from tfp_refine import layers
from tfp_refine import losses
from tfp_refine import models

X = np.random.default_rng(0).normal(size=(20, 3))
LABELS = np.arange(20) % 4
Y = np.random.default_rng(1).normal(size=(20, 2))


def mlp(outputs=4):
    return models.MLP((3,), outputs, hidden=(5,), seed=1)


def values(model):
    return [np.array(v) for v in model.variables]


def assert_refused(message, model, *data, **arguments):
    """Asserts that there is an error, and that nothing has changed."""
    before = values(model)
    with pytest.raises(ValueError, match=message):
        initializers.IBLM(**arguments, verbose=False)(model, *data)
    for one, other in zip(before, values(model), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (LABELS + 0.5, "must be integers, or one-hot. Received: 0.5"),
        (LABELS + 1, r"must be in \[0, 4\).*from 1 to 4"),
        (LABELS - 1, r"must be in \[0, 4\).*from -1 to 2"),
        (np.eye(3)[LABELS % 3], r"or one-hot, \[N, 4\].*\(20, 3\)"),
        (np.eye(5)[LABELS], r"or one-hot, \[N, 4\].*\(20, 5\)"),
        (np.full([20, 4], 0.25), r"one-hot, with one 1.*\[0.25 "),
        (2.0 * np.eye(4)[LABELS], "one-hot, with one 1"),
        (np.ones([20, 4]), "one-hot, with one 1"),
        (np.zeros([20, 4]), "one-hot, with one 1"),
    ],
)
def test_what_is_no_class_of_the_model_is_refused(labels, message):
    assert_refused(message, mlp(), X, labels, task="classification")


@pytest.mark.parametrize("labels", [LABELS, LABELS % 2 + 0.5, LABELS - 1])
def test_one_logit_has_two_classes(labels):
    message = r"must be in \[0, 2\)|must be integers|at least as many"
    model = mlp(1)
    model.compile("sgd", "binary_crossentropy")
    assert_refused(message, model, X, labels)


@pytest.mark.parametrize("form", [np.asarray, np.eye(4).__getitem__])
def test_fewer_examples_than_classes_are_refused(form):
    message = "as many examples as classes. Received: 3 examples for 4"
    labels = form(LABELS[:3])
    assert_refused(message, mlp(), X[:3], labels, task="classification")


@pytest.mark.parametrize(
    ("outputs", "y"), [(4, Y[:, :1]), (1, Y), (3, Y), (4, np.hstack([Y, Y, Y]))]
)
def test_outputs_that_fit_no_target_are_refused(outputs, y):
    message = f"an output for each target.*{outputs} outputs.*{y.shape[1]}\\)"
    assert_refused(message, mlp(outputs), X, y)


@pytest.mark.parametrize("y", [Y[..., np.newaxis], [Y, Y], {"a": Y}])
def test_targets_must_be_one_array_of_rows(y):
    assert_refused("targets must be one array", mlp(2), X, y)


def test_a_single_example_is_refused():
    assert_refused("needs at least 2 examples.*: 1", mlp(2), X[:1], Y[:1])


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (None, None, "needs training data. Received: x=None"),
        (None, Y, "needs training data. Received: x=None"),
        (X, None, "needs training data. Received: y=None"),
        (X[:, :2], Y, r"expects inputs of shape \[\(None, 3\)\]"),
        (X[:, np.newaxis], Y, "expects inputs of shape"),
        ([X, X], Y, "expects inputs of shape"),
        (X[:10], Y, "the same number of examples"),
        (X[:0], Y[:0], "must not be empty"),
        (np.where(X[3, 1] == X, np.nan, X), Y, "`x` must be finite. .* 1 of"),
        (X, np.where(Y[3, 1] == Y, np.inf, Y), "`y` must be finite. .* 1 of"),
        (np.full(X.shape, "a"), Y, "expects numbers as its input"),
        (X, np.full(20, "a"), "must hold numbers"),
    ],
)
def test_data_that_do_not_fit_are_refused(x, y, message):
    assert_refused(message, mlp(2), x, y)


def test_bad_datasets_are_refused():
    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(4)
    assert_refused("`y` must be None when", mlp(2), dataset, Y)
    assert_refused("must end.*is endless", mlp(2), dataset.repeat())
    single = tf.data.Dataset.from_tensor_slices(X).batch(4)
    assert_refused(r"must yield \(x, y\)", mlp(2), single)


# Models.


def test_a_model_without_variational_layers_is_refused():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    assert_refused("has no variational layer to initialize", model, X, Y)
    for make in (initializers.Heuristic, initializers.LSUV):
        with pytest.raises(ValueError, match="has no variational layer"):
            make(verbose=False)(model, X, Y)


def test_a_model_whose_layers_are_all_frozen_is_refused():
    model = mlp(2)
    model.trainable = False
    with pytest.warns(UserWarning, match=r"\['hidden_0', 'outputs'\]"):
        assert_refused("has no variational layer to initialize", model, X, Y)


@pytest.mark.parametrize("shape", [(4, 5), (2, 2, 2)])
def test_outputs_must_be_rows(shape):
    inputs = keras.Input((3,))
    x = layers.DenseFlipout(int(np.prod(shape)))(inputs)
    model = keras.Model(inputs, keras.layers.Reshape(shape)(x))
    assert_refused(r"one output, \[N, D\]", model, X, Y)


def test_several_outputs_are_refused():
    inputs = keras.Input((3,))
    heads = [layers.DenseFlipout(1)(inputs) for _ in range(2)]
    model = keras.Model(inputs, heads)
    assert_refused(r"one output, \[N, D\].*20, 1", model, X, Y)
    model.compile("sgd", [losses.GaussianNLL(), losses.GaussianNLL()])
    assert_refused(r"one output, \[N, D\].*20, 1", model, X, Y)


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = layers.DenseFlipout(2)

    def call(self, inputs):
        return self.dense(inputs)


def test_a_model_that_is_not_built_needs_inputs():
    for make in (initializers.Heuristic, initializers.Uninformative):
        model = Subclassed()
        with pytest.raises(ValueError, match="is not built"):
            make(verbose=False)(model)
        make(verbose=False)(model, X)
        assert model.built
        make(verbose=False)(model)


def test_a_model_that_is_not_built_is_built_on_the_data():
    model = Subclassed()
    initializers.IBLM(verbose=False)(model, X, Y)
    assert model.built
    assert np.max(np.abs(model.dense.kernel)) > 0.0


class Idle(keras.Model):
    """Has a layer that it does not call."""

    def __init__(self):
        super().__init__()
        self.used = layers.DenseFlipout(1, name="used")
        self.idle = layers.DenseFlipout(1, name="idle")

    def call(self, inputs):
        self.idle.built or self.idle.build(inputs.shape)
        return self.used(inputs)


@pytest.mark.parametrize("make", [initializers.IBLM, initializers.LSUV])
def test_layers_that_are_not_called_are_named(make, rng):
    model = Idle()
    x = rng.normal(size=(20, 3)).astype("float32")
    with pytest.warns(UserWarning, match="does not call them: \\['idle'\\]"):
        make(verbose=False)(model, x, x[:, 0])


class Traced(keras.Model):
    """Is compiled by itself, so that nobody sees its calls."""

    def __init__(self):
        super().__init__()
        self.dense = layers.DenseFlipout(1, name="dense")

    @tf.function
    def call(self, inputs):
        return self.dense(inputs)


@pytest.mark.filterwarnings("ignore")
def test_calls_that_cannot_be_seen_are_an_error(rng):
    x = rng.normal(size=(20, 3)).astype("float32")
    model = Traced()
    model(x)
    with pytest.raises(ValueError, match="not seen to call its layers"):
        initializers.IBLM(verbose=False)(model, x, x[:, 0])


def test_inputs_that_are_too_large_are_named(rng):
    x = (1e30 * rng.normal(size=(20, 3))).astype("float32")
    model = models.MLP((3,), 1, hidden=(5,), seed=1)
    before = [np.array(v) for v in model.variables]
    with pytest.raises(
        ValueError, match="of the layer 'outputs' is not finite"
    ):
        initializers.IBLM(seed=0, verbose=False)(model, x, x[:, 0] / 1e30)
    for one, other in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pool_size": 1}, "`pool_size` must be at least 2"),
        ({"pool_size": -1}, "`pool_size` must be a positive integer"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        initializers.IBLM(**arguments)
