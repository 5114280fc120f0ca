import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import trained_models
from tfp_refine import laplace
from tfp_refine.laplace import predictives


@pytest.fixture(autouse=True)
def _double():
    keras.config.set_floatx("float64")
    yield
    keras.config.set_floatx("float32")


def jacobian_of(model, x):
    """Differentiates the model's outputs in all weights, `[N, C, D]`."""
    with tf.GradientTape() as tape:
        outputs = model(x)
    parts = tape.jacobian(outputs, [v.value for v in model.trainable_variables])
    return np.concatenate(
        [np.reshape(p, [*outputs.shape, -1]) for p in parts], axis=-1
    )


def test_the_precision_is_the_gauss_newton_diagonal(rng):
    model, x, y = trained_models.classifier(rng)
    posterior = laplace.DiagonalLaplace(
        model, "classification", prior_precision=0.4
    ).fit(x, y, verbose=0)
    jacobian = jacobian_of(model, x)
    probs = tf.nn.softmax(model(x)).numpy()
    hessian = np.stack([np.diag(p) - np.outer(p, p) for p in probs])
    expected = np.einsum("nid,nij,njd->d", jacobian, hessian, jacobian)
    np.testing.assert_allclose(
        np.diag(posterior.covariance.matrix(-2)), expected + 0.4
    )
    mean, covariance = posterior.linearized_outputs(x)
    np.testing.assert_allclose(mean, model(x))
    np.testing.assert_allclose(
        covariance,
        np.einsum("nid,d,njd->nij", jacobian, 1 / (expected + 0.4), jacobian),
    )


def test_a_certain_posterior_predicts_as_the_model(rng):
    model, x, y = trained_models.classifier(rng, activation="softmax")
    posterior = laplace.DiagonalLaplace(
        model, "classification", prior_precision=1e12
    ).fit(x, y, verbose=0)
    for method in predictives.PREDICTIVES:
        found = posterior.predict_proba(x, 2, method=method, seed=0)
        np.testing.assert_allclose(found, model(x), atol=1e-4)


def test_the_linearized_network_predicts_unless_weights_are_named(rng):
    model, x, y = trained_models.classifier(rng)
    posterior = laplace.DiagonalLaplace(model, "classification").fit(
        x, y, verbose=0
    )
    default = posterior.predict_proba(x, 5, seed=1)
    linearized, draws = (
        posterior.predict_proba(x, 5, method=method, seed=1)
        for method in ("linearized", "mc")
    )
    np.testing.assert_array_equal(default, linearized)
    logits = posterior.predict(x, 5, seed=1)
    np.testing.assert_allclose(
        draws, np.mean(tf.nn.softmax(logits), axis=0), rtol=1e-6
    )
    assert np.abs(default - draws).max() > 0.01


def test_a_convolutional_network_is_linearized(rng):
    model = keras.Sequential(
        [
            keras.Input((6, 6, 1)),
            keras.layers.Conv2D(2, 3, activation="tanh"),
            keras.layers.Flatten(),
            keras.layers.Dense(3),
        ]
    )
    x, y = rng.normal(size=(7, 6, 6, 1)), rng.integers(0, 3, 7)
    posterior = laplace.DiagonalLaplace(model, "classification").fit(
        x, y, verbose=0
    )
    jacobian = jacobian_of(model, x)
    _, covariance = posterior.linearized_outputs(x)
    variance = np.diag(posterior.covariance.matrix())
    np.testing.assert_allclose(
        covariance, np.einsum("nid,d,njd->nij", jacobian, variance, jacobian)
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gru", "attention"])
def test_layers_that_do_not_vectorize_are_differentiated(rng, kind):
    inputs = keras.Input((6, 4))
    if kind == "gru":
        features = keras.layers.GRU(3)(inputs)
    else:
        features = keras.layers.MultiHeadAttention(2, 3)(inputs, inputs)
        features = keras.layers.GlobalAveragePooling1D()(features)
    model = keras.Model(inputs, keras.layers.Dense(2)(features))
    x = rng.normal(size=(5, 6, 4)).astype(np.float32)
    posterior = laplace.DiagonalLaplace(
        model, "regression", prior_precision=1.0
    ).fit(x, np.zeros((5, 2)), verbose=0)
    with tf.GradientTape() as tape:
        outputs = model(x)
    jacobians = tape.jacobian(outputs, model.trainable_variables)
    expected = np.concatenate(
        [np.sum(np.square(j), axis=(0, 1)).ravel() for j in jacobians]
    )
    np.testing.assert_allclose(
        np.diag(posterior.covariance.matrix(-2)) - 1.0,
        expected,
        rtol=1e-3,
        atol=1e-4 * np.max(expected),
    )


def test_blocks_of_examples_change_nothing(rng, monkeypatch):
    model, x, y = trained_models.classifier(rng)
    whole, blocks = (
        laplace.DiagonalLaplace(model, "classification") for _ in range(2)
    )
    whole.fit(x, y, verbose=0)
    # 7 examples of 3 outputs and 27 weights: the last block is smaller.
    monkeypatch.setattr("tfp_refine.laplace.laplace._MAX_NUMBERS", 7 * 3 * 27)
    blocks.fit(x, y, verbose=0)
    np.testing.assert_allclose(
        blocks.covariance.matrix(-2), whole.covariance.matrix(-2)
    )
    np.testing.assert_allclose(
        blocks.log_marginal_likelihood(), whole.log_marginal_likelihood()
    )


def test_a_weight_that_is_nan_is_refused_even_if_no_output_shows_it():
    model = keras.Sequential(
        [
            keras.Input((1,), dtype="int32"),
            keras.layers.Embedding(5, 2),
            keras.layers.Flatten(),
            keras.layers.Dense(2),
        ]
    )
    table = model.layers[0].embeddings
    table.assign(np.where(np.arange(5)[:, np.newaxis] == 4, np.nan, table))
    posterior = laplace.DiagonalLaplace(model, "classification")
    x = np.arange(4, dtype=np.int32)[:, np.newaxis]
    with pytest.raises(ValueError, match="2 of 16 are NaN"):
        posterior.fit(x, np.arange(4) % 2, verbose=0)
