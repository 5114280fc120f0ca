"""Models that end in a dense layer, made in many ways."""

import keras
import numpy as np
import pytest
import tensorflow as tf

NUM, SIZE, CLASSES = 12, 5, 3
LOGITS = {"linear": tf.identity, "softmax": tf.nn.softmax}


def randomize(model, seed=1):
    """Gives biases values too."""
    rng = np.random.default_rng(seed)
    for weight in model.trainable_weights:
        weight.assign(0.5 * rng.standard_normal(weight.shape))
    return model


def make_backbone():
    return keras.Sequential(
        [keras.Input((SIZE,)), keras.layers.Dense(4, activation="tanh")],
        name="backbone",
    )


def sequential():
    return keras.Sequential(
        [
            keras.Input((SIZE,)),
            keras.layers.Dense(4, activation="tanh"),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(CLASSES, name="head"),
        ]
    )


def sequential_without_input():
    model = keras.Sequential(
        [
            keras.layers.Dense(4, activation="relu"),
            keras.layers.Dense(CLASSES, name="head"),
        ]
    )
    model.build((None, SIZE))
    return model


def functional():
    inputs = keras.Input((SIZE,))
    hidden = keras.layers.Dense(4, activation="relu")(inputs)
    hidden = keras.layers.Dropout(0.5)(hidden)
    outputs = keras.layers.Dense(CLASSES, name="head")(hidden)
    return keras.Model(inputs, outputs)


def functional_made_out_of_order():
    head = keras.layers.Dense(CLASSES, name="head")
    inputs = keras.Input((SIZE,))
    hidden = keras.layers.Dense(4, activation="tanh")(inputs)
    skipped = keras.layers.Dense(4)(inputs)
    return keras.Model(inputs, head(keras.layers.Add()([skipped, hidden])))


def nested():
    return keras.Sequential(
        [make_backbone(), keras.layers.Dense(CLASSES, name="head")]
    )


def nested_functional():
    inputs = keras.Input((SIZE,))
    hidden = make_backbone()(inputs)
    return keras.Model(inputs, keras.layers.Dense(CLASSES, name="head")(hidden))


def head_inside():
    head = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(CLASSES, name="head")]
    )
    return keras.Sequential([keras.Input((SIZE,)), make_backbone(), head])


def without_bias():
    return keras.Sequential(
        [
            keras.Input((SIZE,)),
            keras.layers.Dense(4, activation="tanh"),
            keras.layers.Dense(CLASSES, use_bias=False, name="head"),
        ]
    )


def only_the_head():
    return keras.Sequential(
        [keras.Input((SIZE,)), keras.layers.Dense(CLASSES, name="head")]
    )


class Subclassed(keras.Model):
    """Makes its layers in another order than it calls them."""

    def __init__(self):
        super().__init__()
        self.head = keras.layers.Dense(CLASSES, name="head")
        self.hidden = keras.layers.Dense(4, activation="tanh")

    def call(self, inputs):
        return self.head(self.hidden(inputs))


def subclassed():
    model = Subclassed()
    model(np.zeros([1, SIZE], np.float32))
    return model


MODELS = (
    sequential,
    sequential_without_input,
    functional,
    functional_made_out_of_order,
    nested,
    nested_functional,
    head_inside,
    without_bias,
    only_the_head,
    subclassed,
)
every_model = pytest.mark.parametrize("make", MODELS)


def assert_untouched(model):
    for layer in model._flatten_layers():
        assert "call" not in layer.__dict__, layer.name
