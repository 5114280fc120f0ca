import keras
import numpy as np
import pytest
import scipy.special

from tfp_refine import metrics

C = 4
# A metric, and the function that it is.
METRICS = [
    (metrics.NegativeLogLikelihood, metrics.negative_log_likelihood),
    (metrics.BrierScore, metrics.brier_score),
    (metrics.ExpectedCalibrationError, metrics.expected_calibration_error),
]
parametrize = pytest.mark.parametrize(
    ("kind", "function"), METRICS, ids=["nll", "brier", "ece"]
)


@pytest.fixture
def logits(rng):
    return rng.normal(0.0, 2.0, size=(3, 50, C)).astype(np.float32)


@pytest.fixture
def labels(rng):
    return rng.integers(0, C, 50)


def stream(metric, labels, predictions, axis=0, weights=None):
    for rows in (slice(0, 20), slice(20, 21), slice(21, 50)):
        chosen = [slice(None)] * axis + [rows]
        metric.update_state(
            labels[rows],
            predictions[tuple(chosen)],
            None if weights is None else weights[rows],
        )
    return float(metric.result())


@parametrize
@pytest.mark.parametrize("from_logits", [False, True])
def test_batches_give_what_all_examples_give(
    kind, function, from_logits, logits, labels
):
    values = logits[0] if from_logits else scipy.special.softmax(logits[0], -1)
    found = stream(kind(from_logits=from_logits), labels, values)
    expected = function(labels, values, from_logits=from_logits)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@parametrize
def test_draws_are_averaged_as_probabilities(kind, function, logits, labels):
    found = stream(kind(from_logits=True), labels, logits, axis=1)
    expected = function(labels, logits, from_logits=True)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@parametrize
def test_one_hot_rows_are_labels_too(kind, function, logits, labels):
    metric = kind(from_logits=True)
    found = stream(metric, np.eye(C)[labels], logits[0])
    metric.reset_state()
    again = stream(metric, labels[:, np.newaxis], logits[0])
    np.testing.assert_allclose(found, again, rtol=1e-6)


@parametrize
def test_weights_repeat_examples(kind, function, logits, labels):
    weights = np.arange(50) % 3
    found = stream(kind(from_logits=True), labels, logits[0], weights=weights)
    rows = np.repeat(np.arange(50), weights)
    expected = function(labels[rows], logits[0][rows], from_logits=True)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_confidences_of_1_are_in_the_last_bin():
    metric = metrics.ExpectedCalibrationError(num_bins=100)
    probs = np.array([[1.0, 0.0], [0.995, 0.005]])
    metric.update_state([1, 1], probs)
    np.testing.assert_allclose(float(metric.result()), 1.995 / 2, rtol=1e-6)


def test_sure_logits_do_not_overflow():
    metric = metrics.NegativeLogLikelihood(from_logits=True)
    metric.update_state([1], [[1e4, 0.0]])
    assert float(metric.result()) == 1e4


@parametrize
def test_models_compute_and_keep_it(kind, function, tmp_path, logits, labels):
    model = keras.Sequential([keras.Input((C,)), keras.layers.Dense(C)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, metrics=[kind(from_logits=True)])
    model.fit(logits[0], labels, epochs=1, verbose=0)
    name = kind().name
    found = model.evaluate(logits[0], labels, 16, 0, return_dict=True)[name]
    expected = function(labels, model.predict(logits[0]), from_logits=True)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    again = loaded.evaluate(logits[0], labels, 16, 0, return_dict=True)[name]
    np.testing.assert_allclose(again, found, rtol=1e-6)


@parametrize
def test_configs_restore_it(kind, function):
    metric = kind(from_logits=True, name="mine")
    config = metric.get_config()
    assert type(metric).from_config(config).get_config() == config
    assert config["from_logits"]
    assert config["name"] == "mine"


def test_bins_are_positive():
    with pytest.raises(ValueError, match="num_bins"):
        metrics.ExpectedCalibrationError(num_bins=0)
