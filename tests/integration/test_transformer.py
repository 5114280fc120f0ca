"""A small Transformer of short texts: its bound, its refinement, its files."""

import operator

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import distributions as tfd

import tfp_refine as tfr

NUM, LENGTH, SYMBOLS, WIDTH = 24, 6, 8, 8
L = keras.layers


def texts():
    """Returns texts `[NUM, LENGTH]`, padded by 0, and whether 1 is in them."""
    rng = np.random.default_rng(0)
    x = rng.integers(2, SYMBOLS, (NUM, LENGTH))
    y = np.arange(NUM) % 2
    x[np.arange(NUM), rng.integers(0, 3, NUM)] = np.where(y == 1, 1, 2)
    x[:, 4:][rng.random(NUM) < 0.5] = 0
    return x, y


def transformer():
    """Returns a model with a block of Keras' own layers, functional."""
    inputs = keras.Input((LENGTH,), dtype="int64")
    x = L.Embedding(SYMBOLS, WIDTH, mask_zero=True)(inputs)
    attention = L.MultiHeadAttention(2, 4, name="attention")
    x = L.LayerNormalization()(x + attention(x, x))
    hidden = L.EinsumDense(
        "abc,cd->abd", (None, 16), "gelu", bias_axes="d", name="hidden"
    )(x)
    hidden = L.EinsumDense(
        "abc,cd->abd", (None, WIDTH), bias_axes="d", name="back"
    )(hidden)
    x = L.LayerNormalization()(x + hidden)
    x = L.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, L.Dense(2, name="logits")(x))


@pytest.fixture(
    scope="module",
    params=[
        "flipout",
        pytest.param("reparameterization", marks=pytest.mark.slow),
    ],
)
def trained(request):
    """A Bayesian Transformer that was trained a little, and its texts."""
    keras.utils.set_random_seed(1)
    x, y = texts()
    model = tfr.models.to_bayesian(
        transformer(),
        num_train_examples=NUM,
        estimator=request.param,
        initializer=None,
        posterior=tfr.layers.MeanFieldPosterior(0.1),
    )
    model.compile(
        keras.optimizers.Adam(0.02),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        run_eagerly=True,  # for so few steps, the fastest
    )
    history = model.fit(x, y, epochs=10, batch_size=NUM, verbose=0)
    assert history.history["loss"][-1] < 0.9 * history.history["loss"][0]
    return model, x, y


def weights_and_variables(bayesian, deterministic):
    """Returns all weights with posteriors, and the variables of their draws."""
    for layer in bayesian.layers:
        if hasattr(layer, "twin_weights"):
            other = deterministic.get_layer(layer.name)
            for name, weight in layer.twin_weights.items():
                yield weight, operator.attrgetter(name)(other)


# The twins have masks where Keras' einsum layers know none.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*does not support masking:UserWarning"
)


@pytest.mark.slow
def test_every_weight_but_those_of_normalizations_has_a_posterior(trained):
    model, _, _ = trained
    kinds = [type(layer).__name__ for layer in model.layers if layer.weights]
    assert [kind for kind in kinds if kind != "LayerNormalization"] == [
        "EmbeddingReparameterization",
        kinds[1],
        kinds[3],
        kinds[4],
        kinds[-1],
    ]
    assert kinds[1].startswith("MultiHeadAttention")
    assert len(model.losses) == 1 + 8 + 2 + 2 + 2


@pytest.mark.slow
def test_the_bound_is_that_of_brute_force(trained):
    model, x, y = trained
    deterministic = tfr.models.to_deterministic(model)
    pairs = list(weights_and_variables(model, deterministic))
    assert len(pairs) == len(model.losses)
    kl = sum(
        tf.reduce_sum(
            tfd.kl_divergence(
                tfd.Normal(w.loc.value, w.scale), tfd.Normal(0.0, 1.0)
            )
        )
        for w, _ in pairs
    )
    outputs = tf.function(lambda: deterministic(x, training=False))
    generator = keras.random.SeedGenerator(3)
    log_likelihoods = []
    for _ in range(100):
        for weight, variable in pairs:
            variable.assign(weight.sample(generator, "float32"))
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(y, outputs())
        log_likelihoods.append(-np.sum(loss))
    expected = np.mean(log_likelihoods) - kl
    error = np.std(log_likelihoods) / np.sqrt(100)
    found = tfr.elbo(model, x, y, num_samples=100, seed=5)
    # Of two independent estimates; beyond 5 errors once in 1e6 runs. Flipout
    # has less noise, as its examples have draws of their own.
    assert abs(found - expected) < 5.0 * np.sqrt(2.0) * error
    assert error < 0.1 * abs(np.mean(log_likelihoods))  # else all would pass


@pytest.mark.slow
def test_it_is_refined_saved_and_loaded(trained, tmp_path):
    model, x, y = trained
    ensemble = tfr.refine(
        model,
        x,
        y,
        num_members=2,
        variance_ratios=(0.7,),
        steps=10,
        seed=1,
        verbose=0,
    )
    draws = ensemble.predict(x, 4, seed=3)
    assert draws.shape == (4, NUM, 2)
    assert np.all(np.isfinite(draws))
    assert np.std(draws, axis=0).min() > 0.0
    ensemble.save(tmp_path / "ensemble")
    loaded = tfr.load_posterior(tmp_path / "ensemble")
    np.testing.assert_array_equal(loaded.predict(x, 4, seed=3), draws)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    with tfr.layers.mean_weights():
        np.testing.assert_array_equal(again(x), model(x))
    np.testing.assert_array_equal(
        tfr.predict(again, x, 3, seed=1), tfr.predict(model, x, 3, seed=1)
    )
