import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from tfp_refine import layers
from tfp_refine import losses
from tfp_refine import posteriors


def linear_classifier(rng):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    for weight in model.weights:
        weight.assign(rng.normal(size=weight.shape))
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    return model


def test_gradient_of_a_linear_classifier_has_a_closed_form():
    rng = np.random.default_rng(0)
    model = linear_classifier(rng)
    x = rng.normal(size=(30, 4)).astype("float32")
    y = rng.integers(3, size=30)
    signs = posteriors.fast_gradient_sign(model, x, y, 1, batch_size=7)
    kernel, bias = (np.asarray(w, "float64") for w in model.weights)
    probs = scipy.special.softmax(x @ kernel + bias, axis=-1)
    expected = np.sign((probs - np.eye(3)[y]) @ kernel.T)
    np.testing.assert_array_equal(signs, expected)


@pytest.mark.parametrize("form", ["keras", "numbers", "one_hot"])
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e4])
def test_classifiers_that_are_sure_are_attacked_as_well(scale, form):
    # At margins above 100 the gradient itself is zero in single precision.
    rng = np.random.default_rng(0)
    model = linear_classifier(rng)
    kernel = scale * np.asarray(model.weights[0], "float64")
    model.weights[0].assign(kernel)
    model.weights[1].assign(np.zeros(3))
    x = rng.normal(size=(50, 4)).astype("float32")
    logits = x @ kernel
    y = np.argmax(logits, axis=-1)
    signs = posteriors.fast_gradient_sign(
        model,
        x,
        np.eye(3)[y] if form == "one_hot" else y,
        3,
        loss=None if form == "keras" else losses.CategoricalNLL(),
    )
    others = np.where(np.eye(3, dtype=bool)[y], -np.inf, logits)
    weights = scipy.special.softmax(others, axis=-1)
    expected = np.sign((weights - np.eye(3)[y]) @ kernel.T)
    np.testing.assert_array_equal(signs, expected)


def test_draws_count_as_much_as_they_may_err():
    # One class at logit 0, the other at w x: draws of w that are sure say
    # nothing, so that the rare draws near zero decide.
    layer = layers.DenseReparameterization(
        2, use_bias=False, kernel_regularizer=None
    )
    model = keras.Sequential([keras.Input((1,)), layer])
    layer.variational_weights[0].assign(
        loc=[[0.0, -60.0]], scale=[[1e-6, 30.0]]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    x = np.ones((1, 1), "float32")
    sign = posteriors.fast_gradient_sign(
        model, x, np.zeros(1, int), 400, seed=0, loss=loss
    )
    # The gradient is p(1) w: 2.3% of the draws are above zero, w > 0, where
    # p(1) is about 1; elsewhere it vanishes.
    assert sign.item() == 1.0


def one_weight(loc, scale):
    """Returns a model `y = w x` with `w ~ N(loc, scale**2)`, and its loss."""
    layer = layers.DenseReparameterization(
        1, use_bias=False, kernel_regularizer=None
    )
    model = keras.Sequential([keras.Input((1,)), layer])
    (weight,) = layer.variational_weights
    weight.assign(loc=[[loc]], scale=[[scale]])
    return model, lambda y, outputs: keras.ops.sum(outputs - 0 * y, axis=-1)


@pytest.mark.slow
def test_gradient_is_averaged_over_draws_of_the_weights():
    model, loss = one_weight(0.3, 1.0)

    def signs(num_samples, seed):
        x = np.ones((1, 1), "float32")
        return posteriors.fast_gradient_sign(
            model, x, x, num_samples, seed, loss=loss
        ).item()

    # The gradient is the weight: 38% of single draws are negative. Their mean
    # over 1000 is N(0.3, 0.001), positive but once in 1e21.
    single = [signs(1, seed) for seed in range(12)]
    assert set(single) == {-1.0, 1.0}  # false alarm: 0.3%, with fixed seeds
    assert [signs(1000, seed) for seed in range(2)] == [1.0, 1.0]
    assert [signs(1, seed) for seed in range(12)] == single


def test_the_model_is_left_as_it_was():
    model, loss = one_weight(0.3, 1.0)
    before = [np.array(v) for v in model.variables]
    x = np.ones((4, 1), "float32")
    posteriors.fast_gradient_sign(model, x, x, 3, loss=loss)
    for old, new in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(old, new)


def test_other_targets_and_losses_can_be_attacked():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.layers[0].kernel.assign([[2.0], [-1.0]])
    x, y = np.zeros((2, 2), "float32"), np.array([[-1.0], [1.0]])
    signs = posteriors.fast_gradient_sign(model, x, y, loss="mse")
    np.testing.assert_array_equal(signs, [[1.0, -1.0], [-1.0, 1.0]])


def test_inputs_without_effect_have_sign_zero():
    model, _ = one_weight(0.0, 1.0)
    x = np.ones((3, 1), "float32")
    signs = posteriors.fast_gradient_sign(
        model, x, x, loss=lambda y, outputs: keras.ops.sum(y, axis=-1)
    )
    np.testing.assert_array_equal(signs, np.zeros((3, 1)))


def test_signs_have_the_shape_of_the_inputs():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    x = np.arange(3.0)
    signs = posteriors.fast_gradient_sign(model, x, x, loss="mse")
    column = posteriors.fast_gradient_sign(model, x[:, None], x, loss="mse")
    assert signs.shape == (3,)
    np.testing.assert_array_equal(signs, column[:, 0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": None}, "must be a keras.Model"),
        ({"model": keras.Sequential()}, "is not built"),
        ({"x": np.ones((5, 3))}, r"expects inputs of shape \[\(None, 4\)\]"),
        ({"x": [np.ones((5, 4))] * 2}, r"expects inputs of shape"),
        ({"y": [np.ones(5)] * 2}, "`y` must be one tensor"),
        ({"x": np.full((5, 4), np.nan)}, "`x` must be finite"),
        ({"y": np.zeros(4, int)}, "the same number of examples"),
        ({"y": np.full(5, 3)}, r"must be in \[0, 3\)"),
        ({"num_samples": 0}, "`num_samples` must be a positive integer"),
        ({"batch_size": 0}, "`batch_size` must be a positive integer"),
        ({"seed": -1}, "`seed` must not be negative"),
    ],
)
def test_bad_arguments_are_refused(changes, message):
    arguments = {
        "model": linear_classifier(np.random.default_rng(0)),
        "x": np.ones((5, 4)),
        "y": np.zeros(5, int),
        **changes,
    }
    with pytest.raises(ValueError, match=message):
        posteriors.fast_gradient_sign(**arguments)


def test_a_model_without_a_loss_is_refused():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    with pytest.raises(ValueError, match="compile the model with a loss"):
        posteriors.fast_gradient_sign(model, np.ones((5, 4)), np.zeros(5))


def test_weights_change_no_sign_unless_they_are_zero(rng):
    model = linear_classifier(rng)
    x = rng.normal(size=(6, 4)).astype("float32")
    y = rng.integers(3, size=6)
    weights = np.array([1.0, 0.0, 3.0, 0.5, 0.0, 1e-30])
    dataset = tf.data.Dataset.from_tensor_slices((x, y, weights)).batch(4)
    signs = posteriors.fast_gradient_sign(model, dataset, num_samples=1)
    expected = posteriors.fast_gradient_sign(model, x, y, 1)
    expected[weights == 0.0] = 0.0
    np.testing.assert_array_equal(signs, expected)
