import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import two_heads
from tfp_refine import losses
from tfp_refine.functional import links

LOGITS = links.Link("softmax", from_logits=True)
LOSSES = keras.losses


def compiled(loss):
    """Returns a compiled model."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    model.compile("sgd", loss)
    return model


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (LOSSES.SparseCategoricalCrossentropy(from_logits=True), LOGITS),
        (LOSSES.CategoricalCrossentropy(), ("softmax", False)),
        (LOSSES.CategoricalFocalCrossentropy(), ("softmax", False)),
        ("sparse_categorical_crossentropy", ("softmax", False)),
        (LOSSES.categorical_crossentropy, ("softmax", False)),
        (LOSSES.BinaryCrossentropy(from_logits=True), ("sigmoid", True)),
        (LOSSES.BinaryFocalCrossentropy(), ("sigmoid", False)),
        ("binary_crossentropy", ("sigmoid", False)),
        ("mse", None),
        (losses.GaussianNLL(), None),
        (lambda y_true, y_pred: y_pred, None),
        ({"a": "mse"}, None),
        (["mse"], None),
        ("no such loss", None),
    ],
)
def test_a_loss_says_what_outputs_are(loss, expected):
    assert links.find(compiled("mse"), loss) == expected
    if not isinstance(loss, dict | list) and loss != "no such loss":
        assert links.find(compiled(loss)) == expected


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        ("softmax", ("softmax", False)),
        ("sigmoid", ("sigmoid", False)),
        ("relu", None),
        (None, None),
    ],
)
def test_without_a_loss_the_activation_says_it(activation, expected):
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(3, activation=activation)]
    )
    assert links.find(model) == expected
    # A loss goes before it.
    assert links.find(model, "mse") is None


def test_a_model_without_layers_is_no_classifier():
    class Empty(keras.Model):
        def call(self, inputs):
            return inputs

    assert links.find(Empty()) is None


def test_probabilities_are_those_of_the_link(rng):
    logits = rng.normal(size=(5, 3))
    softmax = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    sigmoid = 1.0 / (1.0 + np.exp(-logits))
    for function, from_logits, outputs, expected in (
        ("softmax", True, logits, softmax),
        ("softmax", False, softmax, softmax),
        ("sigmoid", True, logits, sigmoid),
        ("sigmoid", False, sigmoid, sigmoid),
        # One output is of the second of two classes.
        ("sigmoid", True, logits[:, :1], [1 - sigmoid[:, 0], sigmoid[:, 0]]),
        ("sigmoid", False, sigmoid[:, :1], [1 - sigmoid[:, 0], sigmoid[:, 0]]),
    ):
        if isinstance(expected, list):
            expected = np.stack(expected, axis=-1)
        link = links.Link(function, from_logits)
        found = link.probabilities(tf.constant(outputs))
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_small_probabilities_of_a_logit_do_not_vanish():
    link = links.Link("sigmoid", from_logits=True)
    probs = link.probabilities(tf.constant([[60.0], [-60.0]]))
    expected = [[np.exp(-60.0), 1.0], [1.0, np.exp(-60.0)]]
    np.testing.assert_allclose(probs, expected, rtol=1e-5)


LINKS = links.Links(("label", "size"), (links.Link("softmax", True), None))


@pytest.mark.parametrize("form", ["dict", "list", "tuple"])
def test_losses_say_which_outputs_classify(form):
    model = two_heads.make_model(form)
    assert links.find(model) is None
    for given in (
        two_heads.losses_of(),
        [*two_heads.losses_of().values()],
        {"label": losses.CategoricalNLL()},
    ):
        assert links.find(model, given) == LINKS
        model.compile("sgd", given)
        if len(given) == 2:
            assert links.find(model) == LINKS
    assert links.find(model, "mse") is None
    assert links.find(model, ["mse"] * 3) is None
    assert links.restore(links.describe(LINKS)) == LINKS


def test_activations_say_it_without_a_loss():
    inputs = keras.Input((2,))
    heads = {
        "a": keras.layers.Dense(1)(inputs),
        "b": keras.layers.Dense(3, activation="softmax")(inputs),
    }
    assert links.find(keras.Model(inputs, heads)) == links.Links(
        ("a", "b"), (None, links.Link("softmax", False))
    )


def test_one_output_in_a_list_is_one_output():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.build()
    link = links.find(
        keras.Model(model.inputs, model.outputs[0]), [losses.BernoulliNLL()]
    )
    assert link == links.Link("sigmoid", True)
