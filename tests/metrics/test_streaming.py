import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

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


def test_confidences_that_rounding_put_above_1_are_in_the_last_bin():
    metric = metrics.ExpectedCalibrationError(num_bins=10)
    above = np.nextafter(np.float32(1.0), np.float32(2.0))
    metric.update_state([0, 0], np.array([[0.0, above], [above, 0.0]]))
    np.testing.assert_allclose(float(metric.result()), 0.5, rtol=1e-6)
    metric.reset_state()
    metric.update_state([0, 0], np.array([[0.0, above], [0.0, above]]))
    np.testing.assert_allclose(float(metric.result()), 1.0, rtol=1e-6)


@parametrize
def test_before_any_example_it_is_0(kind, function):
    assert float(kind().result()) == 0.0


def test_sure_logits_do_not_overflow():
    metric = metrics.NegativeLogLikelihood(from_logits=True)
    metric.update_state([1], [[1e4, 0.0]])
    assert float(metric.result()) == 1e4


@pytest.mark.slow
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


def test_a_config_has_the_number_of_bins():
    metric = metrics.ExpectedCalibrationError(num_bins=7)
    config = metric.get_config()
    assert config["num_bins"] == 7
    assert type(metric).from_config(config).num_bins == 7


def test_bins_are_positive():
    with pytest.raises(ValueError, match="num_bins"):
        metrics.ExpectedCalibrationError(num_bins=0)


BAD = {
    "probs": ([0, 1], [[0.5, 0.6], [0.5, 0.5]], "sum to 1"),
    "nan": ([0, 1], [[np.nan, 0.5], [0.5, 0.5]], "sum to 1"),
    "negative": ([0, 1], [[1.2, -0.2], [0.5, 0.5]], "sum to 1"),
    "label": ([0, 2], [[0.5, 0.5], [0.5, 0.5]], "class numbers"),
    "below": ([0, -1], [[0.5, 0.5], [0.5, 0.5]], "class numbers"),
    "fraction": ([0.0, 0.5], [[0.5, 0.5], [0.5, 0.5]], "class numbers"),
    "rows": ([[1, 1], [0, 1]], [[0.5, 0.5], [0.5, 0.5]], "class numbers"),
    "soft": ([[0.4, 0.6], [0, 1]], [[0.5, 0.5], [0.5, 0.5]], "class numbers"),
}


@parametrize
@pytest.mark.parametrize("case", BAD)
def test_bad_values_are_errors_and_in_compiled_programs_nan(
    kind, function, case
):
    labels, probs, message = BAD[case]
    labels, probs = np.array(labels), np.array(probs, np.float32)
    with pytest.raises(ValueError, match=message):
        kind().update_state(labels, probs)
    with pytest.raises(
        ValueError, match=r"sum to 1|y_true|finite|negative|prob"
    ):
        function(labels, probs)
    metric = kind()
    tf.function(metric.update_state)(labels, probs)
    assert np.isnan(metric.result())
    metric.reset_state()
    tf.function(metric.update_state)(np.array([0, 1]), np.full((2, 2), 0.5))
    assert np.isfinite(metric.result())


@parametrize
@pytest.mark.parametrize(
    ("labels", "predictions"),
    [((2, 3), (2, 2)), ((3,), (2, 2)), ((2,), (2,)), ((2,), (2, 1)),
     ((2, 1, 1), (2, 2)), ((), (2, 2))],
    ids=str,
)  # fmt: skip
def test_shapes_that_do_not_fit_are_errors(kind, function, labels, predictions):
    with pytest.raises(ValueError, match="must have shape"):
        kind(from_logits=True).update_state(
            np.zeros(labels, int), np.zeros(predictions, np.float32)
        )


@parametrize
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_probabilities_of_half_precision_are_taken(kind, function, dtype, rng):
    logits = rng.normal(size=(20, 1000))
    probs = tf.nn.softmax(tf.cast(logits, dtype))
    labels = rng.integers(0, 1000, 20)
    metric = kind()
    tf.function(metric.update_state)(labels, probs)
    expected = function(labels, scipy.special.softmax(logits, axis=-1))
    np.testing.assert_allclose(metric.result(), expected, rtol=0.02, atol=0.01)


@parametrize
def test_examples_of_weight_zero_do_not_count(kind, function):
    probs = np.array([[0.0, 1.0], [0.5, 0.5]], np.float32)
    metric = kind()
    metric.update_state(np.array([0, 0]), probs, np.array([0.0, 1.0]))
    expected = function(np.array([0]), probs[1:])
    np.testing.assert_allclose(metric.result(), expected, atol=1e-6)
