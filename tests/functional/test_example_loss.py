import keras
import numpy as np
import pytest

from tfp_refine import losses
from tfp_refine.functional import example_loss


def compiled(loss):
    """Returns a compiled model."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    model.compile("sgd", loss)
    return model


@pytest.fixture
def y_pred(rng):
    return rng.normal(size=(5, 3)).astype("float32")


def nll(loss, y_true, y_pred):
    """Resolves `loss` as that of a model, and applies it."""
    resolved = example_loss.resolve(compiled(loss))
    return np.asarray(
        example_loss.negative_log_likelihood(resolved, y_true, y_pred)
    )


@pytest.mark.parametrize(
    "loss",
    [
        "sparse_categorical_crossentropy",
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="sum"
        ),
    ],
)
def test_each_example_has_its_cross_entropy(loss, y_pred):
    labels = np.array([0, 1, 2, 1, 0])
    if loss == "sparse_categorical_crossentropy":
        y_pred = np.asarray(keras.ops.softmax(y_pred))
        probs = y_pred
    else:
        probs = np.asarray(keras.ops.softmax(y_pred))
    expected = -np.log(probs[np.arange(5), labels])
    np.testing.assert_allclose(nll(loss, labels, y_pred), expected, rtol=1e-5)


def test_the_mean_squared_error_is_the_one_of_keras(y_pred, rng):
    y_true = rng.normal(size=(5, 3)).astype("float32")
    expected = np.mean((y_true - y_pred) ** 2, axis=1)
    for loss in ("mse", keras.losses.MeanSquaredError()):
        np.testing.assert_allclose(
            nll(loss, y_true, y_pred), expected, rtol=1e-5
        )


def test_targets_without_the_last_axis_are_not_broadcast_to_pairs(rng):
    def loss(y_true, y_pred):
        return keras.ops.square(y_true - y_pred)

    y_true, y_pred = rng.normal(size=(2, 5, 1)).astype("float32")
    expected = np.square(y_true - y_pred)[:, 0]
    for targets, outputs in (
        (y_true, y_pred),
        (y_true[:, 0], y_pred),
        (y_true, y_pred[:, 0]),
    ):
        found = nll(loss, targets, outputs)
        assert found.shape == (5,)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_half_precision_outputs_are_widened_as_in_fit():
    loss = losses.GaussianNLL(0.002)
    y_true = np.array([[1.0]], np.float32)
    y_pred = np.array([[3.0]], np.float16)
    found = nll(loss, y_true, keras.ops.convert_to_tensor(y_pred))
    np.testing.assert_allclose(found, [loss(y_true, y_pred)], rtol=1e-6)


def test_integer_targets_are_cast_as_in_fit():
    loss = losses.GaussianNLL()
    found = nll(loss, np.array([[1], [3]]), np.array([[1.0], [1.0]]))
    np.testing.assert_allclose(found[1] - found[0], 2.0, rtol=1e-6)


def test_a_scalar_stays_a_scalar(y_pred):
    value = nll(lambda y_true, y_pred: keras.ops.mean(y_pred), y_pred, y_pred)
    assert value.shape == ()
    np.testing.assert_allclose(value, np.mean(y_pred), rtol=1e-5)


def test_the_argument_goes_before_the_compiled_loss(y_pred):
    def ones(y_true, y_pred):
        return keras.ops.ones(5)

    assert example_loss.resolve(compiled("mse"), ones) is ones
    assert example_loss.resolve(compiled(None), "mae") is keras.losses.get(
        "mae"
    )


def test_a_missing_loss_is_an_error():
    not_compiled = keras.Sequential([keras.layers.Dense(2)])
    for model in (compiled(None), not_compiled):
        with pytest.raises(ValueError, match="likelihood is unknown: compile"):
            example_loss.resolve(model)


@pytest.mark.parametrize("loss", [["mse", "mae"], {"a": "mse"}, ("mse",)])
def test_a_loss_for_each_output_is_refused(loss):
    with pytest.raises(ValueError, match="needs one callable"):
        example_loss.resolve(compiled("mse"), loss)
