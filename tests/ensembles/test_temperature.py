import keras
import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

import tfp_refine as tfr
from tests.support import trained_models
from tfp_refine import ensembles
from tfp_refine import metrics


@pytest.fixture(autouse=True)
def _double():
    keras.config.set_floatx("float64")
    yield
    keras.config.set_floatx("float32")


def calibrated_labels(rng, model, x, temperature):
    """Draws labels as if the model's logits were too great by a factor."""
    probs = tf.nn.softmax(model(x) / temperature).numpy()
    return np.array([rng.choice(len(p), p=p) for p in probs])


@pytest.mark.slow
@pytest.mark.parametrize("activation", [None, "softmax"])
def test_the_temperature_minimizes_the_likelihood(rng, activation):
    model, _, _ = trained_models.classifier(rng, activation=activation)
    x = rng.normal(size=(200, 2))
    logits = model(x) if activation is None else tf.math.log(model(x))
    y = rng.integers(0, 3, 200)
    y[:150] = np.argmax(logits, axis=-1)[:150]
    scaled = ensembles.TemperatureScaling(model).fit(x, y)

    def loss(log_temperature):
        return metrics.negative_log_likelihood(
            y, logits / np.exp(log_temperature), from_logits=True
        )

    best = scipy.optimize.minimize_scalar(
        loss, bounds=(-5, 5), method="bounded", options={"xatol": 1e-9}
    )
    np.testing.assert_allclose(scaled.temperature, np.exp(best.x), rtol=1e-5)
    np.testing.assert_allclose(
        metrics.negative_log_likelihood(y, scaled.predict_proba(x, 1)),
        best.fun,
    )


def test_the_temperature_of_the_labels_is_found(rng):
    model, _, _ = trained_models.classifier(rng)
    x = rng.normal(size=(20000, 2))
    y = calibrated_labels(rng, model, x, 2.0)
    scaled = ensembles.TemperatureScaling(model).fit(x, y)
    assert 1.8 < scaled.temperature < 2.2


@pytest.mark.parametrize("factor", [0.01, 200.0])
def test_the_temperature_follows_the_size_of_the_logits(rng, factor):
    model, _, _ = trained_models.classifier(rng)
    x = rng.normal(size=(500, 2))
    y = calibrated_labels(rng, model, x, 2.0)
    before = ensembles.TemperatureScaling(model).fit(x, y)
    expected = before.predict_proba(x, 1)
    layer = model.layers[-1]
    layer.set_weights([factor * value for value in layer.get_weights()])
    after = ensembles.TemperatureScaling(model).fit(x, y)
    np.testing.assert_allclose(
        after.temperature, factor * before.temperature, rtol=1e-6
    )
    np.testing.assert_allclose(after.predict_proba(x, 1), expected, rtol=1e-5)


@pytest.mark.parametrize("activation", [None, "softmax"])
def test_predictions_are_of_the_kind_of_the_model(rng, activation):
    model, x, y = trained_models.classifier(rng, activation=activation)
    scaled = ensembles.TemperatureScaling(model).fit(x, y)
    logits = model(x) if activation is None else tf.math.log(model(x))
    expected = logits / scaled.temperature
    probs = tf.nn.softmax(expected)
    draws = scaled.predict(x, 3)
    assert draws.shape == (3, 40, 3)
    if activation is not None:
        expected = probs
    for draw in draws:
        np.testing.assert_allclose(draw, expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(scaled.predict_proba(x, 1), probs, rtol=1e-6)


def test_before_it_is_fit_it_is_the_model(rng):
    model, x, _ = trained_models.classifier(rng)
    scaled = ensembles.TemperatureScaling(model)
    assert scaled.temperature == 1.0
    np.testing.assert_allclose(scaled.predict(x, 1)[0], model(x), rtol=1e-6)


def test_it_does_not_change_with_the_model(rng):
    model, x, y = trained_models.classifier(rng)
    scaled = ensembles.TemperatureScaling(model).fit(x, y)
    before = scaled.predict(x, 1)
    for weight in model.weights:
        weight.assign(2.0 * weight)
    np.testing.assert_array_equal(scaled.predict(x, 1), before)


def test_inputs_of_unknown_shape_come_with_the_data(rng):
    model = keras.Sequential(
        [
            keras.Input((None, 2)),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(3),
        ]
    )
    x = rng.normal(size=(500, 4, 2))
    y = calibrated_labels(rng, model, x, 1.5)
    scaled = ensembles.TemperatureScaling(model)
    for method in (scaled.predict, scaled.predict_proba):
        with pytest.raises(ValueError, match="call `fit` first"):
            method(x)
    scaled.fit(x, y)
    np.testing.assert_allclose(
        scaled.predict(x, 1)[0], model(x) / scaled.temperature, atol=1e-6
    )


def test_the_layer_of_the_logits_may_be_named(rng):
    model, x, _ = trained_models.classifier(rng)
    with pytest.raises(ValueError, match="no_such_layer"):
        ensembles.TemperatureScaling(model, "no_such_layer")
    scaled = ensembles.TemperatureScaling(model, model.layers[-1].name)
    np.testing.assert_allclose(scaled.predict(x, 1)[0], model(x), rtol=1e-6)


def test_the_predicted_class_is_the_same(rng):
    model, _, _ = trained_models.classifier(rng)
    x = rng.normal(size=(500, 2))
    scaled = ensembles.TemperatureScaling(model).fit(
        x, calibrated_labels(rng, model, x, 3.0)
    )
    probs = scaled.predict_proba(x, 1)
    np.testing.assert_array_equal(
        probs.argmax(axis=-1), np.argmax(model(x), axis=-1)
    )
    np.testing.assert_allclose(probs.sum(axis=-1), 1.0)


def test_one_output_is_the_logit_of_the_second_class(rng):
    model, x, y = trained_models.logistic_regression(rng, 0.1, 0.3)
    scaled = ensembles.TemperatureScaling(model).fit(x, y)
    probs = scaled.predict_proba(x, 1)
    np.testing.assert_allclose(
        probs[:, 1],
        tf.sigmoid(model(x)[:, 0] / scaled.temperature),
        rtol=1e-5,
    )


def test_labels_that_are_all_right_are_refused(rng):
    model, x, _ = trained_models.classifier(rng)
    scaled = ensembles.TemperatureScaling(model)
    with pytest.raises(ValueError, match="No temperature"):
        scaled.fit(x, np.argmax(model(x), axis=-1))
    assert scaled.temperature == 1.0


def test_a_saved_temperature_is_the_same(rng, tmp_path):
    model, _, _ = trained_models.classifier(rng)
    x = rng.normal(size=(500, 2))
    scaled = ensembles.TemperatureScaling(model).fit(
        x, calibrated_labels(rng, model, x, 3.0)
    )
    expected = scaled.predict(x, 2)
    scaled.save(tmp_path / "temperature.posterior")
    for given in (None, model):
        loaded = tfr.load_posterior(tmp_path / "temperature.posterior", given)
        assert loaded.temperature == scaled.temperature
        np.testing.assert_array_equal(loaded.predict(x, 2), expected)
        np.testing.assert_array_equal(
            loaded.predict_proba(x, 1), scaled.predict_proba(x, 1)
        )
    scaled.export(tmp_path / "served", 2)
    served = tf.saved_model.load(tmp_path / "served")
    np.testing.assert_allclose(served.serve(x), expected, rtol=1e-6)
    model.layers[-1].bias.assign_add(np.ones(3))
    with pytest.raises(ValueError, match="another model"):
        tfr.load_posterior(tmp_path / "temperature.posterior", model)


def test_bad_data_are_named(rng):
    model, x, y = trained_models.classifier(rng)
    scaled = ensembles.TemperatureScaling(model)
    with pytest.raises(ValueError, match=r"\[0, 3\)"):
        scaled.fit(x, y + 1)
    with pytest.raises(ValueError, match="batch_size"):
        scaled.predict(x, batch_size=0)
    with pytest.raises(ValueError, match="batch_size"):
        scaled.fit(x, y, batch_size=0)


def test_whole_weights_are_repeated_examples(rng):
    model, x, y = trained_models.classifier(rng)
    weight = rng.integers(1, 4, len(x))
    rows = np.repeat(np.arange(len(x)), weight)
    weighted, repeated, plain, ones = (
        ensembles.TemperatureScaling(model).fit(*data, **given).temperature
        for data, given in (
            ((x, y), {"sample_weight": weight}),
            ((x[rows], y[rows]), {}),
            ((x, y), {}),
            ((x, y), {"sample_weight": np.ones(len(x))}),
        )
    )
    np.testing.assert_allclose(weighted, repeated, rtol=1e-9)
    assert ones == plain != weighted
