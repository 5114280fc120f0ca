"""Randomness that a saved model takes up where it was."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfp_refine as tfr
from tests.support import replicas
from tfp_refine.layers import random_layer

CASES = {name: c for name, c in replicas.cases().items() if name != "keras"}


def test_a_seed_without_replicas_is_that_of_keras():
    ours, theirs = random_layer.SeedGenerator(3), keras.random.SeedGenerator(3)
    for _ in range(2):
        np.testing.assert_array_equal(ours.next(), theirs.next())


def model_of(name):
    make, inputs = CASES[name]
    return keras.Sequential([keras.Input(inputs.shape[1:]), make()]), inputs


class SelfAttention(tfr.layers.MultiHeadAttentionFlipout):
    """Attention that is called with one tensor."""

    def build(self, input_shape):
        super().build(input_shape, input_shape)

    def call(self, inputs, training=None):
        return super().call(inputs, inputs, training=training)


# Keras refuses to make the layer inside of "concrete" again in a graph.
REMATERIALIZED = {
    name: case for name, case in CASES.items() if name != "concrete"
} | {
    "separable": (
        lambda: tfr.layers.SeparableConv2DFlipout(2, 3, seed=1),
        CASES["convolution"][1],
    ),
    "attention": (lambda: SelfAttention(2, 2, seed=1), CASES["gru"][1]),
}


@pytest.mark.parametrize("name", REMATERIALIZED)
def test_a_rematerialized_layer_has_the_same_gradients(name):
    make, inputs = REMATERIALIZED[name]
    plain = make()
    with keras.RematScope(mode="full"):
        other = make()
    for layer in (plain, other):
        layer.build(inputs.shape)
        layer.set_weights(plain.get_weights())

    @tf.function
    def gradients(layer):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(inputs, training=True) ** 2)
        values = tape.gradient(
            loss,
            [weight.value for weight in layer.trainable_weights],
            unconnected_gradients="zero",
        )
        return loss, *map(tf.convert_to_tensor, values)

    found, expected = gradients(other), gradients(plain)
    for value, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("file", ["model.keras", "model.weights.h5"])
def test_a_loaded_model_draws_what_the_saved_one_draws_next(
    name, file, tmp_path
):
    model, inputs = model_of(name)
    first = np.array(model(inputs))
    if file == "model.keras":
        model.save(tmp_path / file)
        loaded = keras.models.load_model(tmp_path / file)
    else:
        model.save_weights(tmp_path / file)
        loaded, _ = model_of(name)
        loaded.load_weights(tmp_path / file)
    following = np.array(loaded(inputs))
    np.testing.assert_array_equal(following, model(inputs))
    assert np.any(following != first)


@pytest.mark.parametrize("name", ["flipout", "dropout", "concrete", "gru"])
def test_files_without_the_state_of_the_generator_are_read(
    name, tmp_path, monkeypatch
):
    model, inputs = model_of(name)
    with monkeypatch.context() as old:
        old.delattr(random_layer.RandomLayer, "save_own_variables")
        model.save_weights(tmp_path / "old.weights.h5")
    loaded, _ = model_of(name)
    loaded(inputs)
    state = np.array(loaded.layers[0].seed_generator.state)
    loaded.load_weights(tmp_path / "old.weights.h5")
    np.testing.assert_array_equal(loaded.layers[0].seed_generator.state, state)
    for one, other in zip(
        model.trainable_weights, loaded.trainable_weights, strict=True
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_training_continued_from_a_file_is_as_if_never_interrupted(
    tmp_path, rng
):
    x = rng.normal(size=(32, 3)).astype(np.float32)
    y = rng.normal(size=(32, 1)).astype(np.float32)
    model = keras.Sequential(
        [
            keras.Input((3,)),
            tfr.layers.DenseFlipout(4, "relu"),
            tfr.layers.MCDropout(0.1),
            tfr.layers.DenseMNF(1),
        ]
    )
    tfr.layers.set_num_train_examples(model, 32)
    model.compile(
        keras.optimizers.Adam(1e-2),
        tfr.losses.GaussianNLL(1.0),
        run_eagerly=True,  # for so few steps, the fastest
    )
    options = {"batch_size": 8, "shuffle": False, "verbose": 0}
    model.fit(x, y, epochs=2, **options)
    model.save(tmp_path / "model.keras")
    model.fit(x, y, epochs=2, **options)
    continued = keras.models.load_model(tmp_path / "model.keras")
    continued.fit(x, y, epochs=2, **options)
    for one, other in zip(model.weights, continued.weights, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=one.path)
