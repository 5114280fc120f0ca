import json

import keras
import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

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
        metrics.negative_log_likelihood(y, scaled.predict(x)), best.fun
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
    expected = before.predict(x)
    layer = model.layers[-1]
    layer.set_weights([factor * value for value in layer.get_weights()])
    after = ensembles.TemperatureScaling(model).fit(x, y)
    np.testing.assert_allclose(
        after.temperature, factor * before.temperature, rtol=1e-6
    )
    np.testing.assert_allclose(after.predict(x), expected, rtol=1e-5)


def test_probabilities_have_the_type_of_keras(rng):
    model, x, _ = trained_models.classifier(rng)
    scaled = ensembles.TemperatureScaling(model)
    assert scaled.predict(x).dtype == np.float64
    keras.config.set_floatx("float32")
    assert scaled.predict(x).dtype == np.float32


def test_the_layer_of_the_logits_may_be_named(rng, tmp_path):
    model, x, _ = trained_models.classifier(rng)
    with pytest.raises(ValueError, match="no_such_layer"):
        ensembles.TemperatureScaling(model, "no_such_layer")
    scaled = ensembles.TemperatureScaling(model, model.layers[-1].name)
    path = tmp_path / "temperature.json"
    scaled.save(path)
    assert json.loads(path.read_text())["layer"] == model.layers[-1].name


def test_the_predicted_class_is_the_same(rng):
    model, _, _ = trained_models.classifier(rng)
    x = rng.normal(size=(500, 2))
    scaled = ensembles.TemperatureScaling(model).fit(
        x, calibrated_labels(rng, model, x, 3.0)
    )
    (probs,) = scaled.predict(x)
    np.testing.assert_array_equal(
        probs.argmax(axis=-1), np.argmax(model(x), axis=-1)
    )
    np.testing.assert_allclose(probs.sum(axis=-1), 1.0)


def test_one_output_is_the_logit_of_the_second_class(rng):
    model, x, y = trained_models.logistic_regression(rng, 0.1, 0.3)
    scaled = ensembles.TemperatureScaling(model).fit(x, y)
    (probs,) = scaled.predict(x)
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
    path = tmp_path / "temperature.json"
    scaled.save(path)
    loaded = ensembles.TemperatureScaling.load(path, model)
    np.testing.assert_array_equal(loaded.predict(x), scaled.predict(x))
    model.layers[-1].bias.assign_add(np.ones(3))
    with pytest.raises(ValueError, match="another model"):
        ensembles.TemperatureScaling.load(path, model)
    contents = json.loads(path.read_text()) | {"temperature": -1.0}
    for bad in (contents, {}):
        path.write_text(json.dumps(bad))
        with pytest.raises(ValueError, match="holds no temperature"):
            ensembles.TemperatureScaling.load(path, model)
    path.unlink()
    with pytest.raises(ValueError, match="holds no temperature"):
        ensembles.TemperatureScaling.load(path, model)


def test_bad_data_are_named(rng):
    model, x, y = trained_models.classifier(rng)
    scaled = ensembles.TemperatureScaling(model)
    with pytest.raises(ValueError, match=r"\[0, 3\)"):
        scaled.fit(x, y + 1)
    with pytest.raises(ValueError, match="batch_size"):
        scaled.predict(x, batch_size=0)
    with pytest.raises(ValueError, match="batch_size"):
        scaled.fit(x, y, batch_size=0)
