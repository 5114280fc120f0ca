"""Metrics keep their bounds, and refuse values that are no prediction."""

import dataclasses
import math

import hypothesis
import keras
import numpy as np
from hypothesis import strategies as st

from tests.properties import budget
from tests.properties import junk
from tfp_refine import metrics

_ROUNDING = 1e-9


@st.composite
def _classes(draw, extreme=60.0):
    """Draws labels, and logits `[S, N, C]`."""
    shape = [draw(st.integers(low, 4)) for low in (1, 1, 2)]
    size = math.prod(shape)
    numbers = st.one_of(st.floats(-5.0, 5.0), st.floats(-extreme, extreme))
    logits = draw(st.lists(numbers, min_size=size, max_size=size))
    count = shape[1]
    labels = st.lists(
        st.integers(0, shape[2] - 1), min_size=count, max_size=count
    )
    return np.array(draw(labels)), np.reshape(logits, shape)


@st.composite
def _gaussians(draw):
    """Draws targets, means and scales."""
    shape = [draw(st.integers(1, 4)) for _ in range(3)]
    numbers = st.one_of(st.floats(-5.0, 5.0), st.floats(-1e4, 1e4))

    def array(shape, numbers):
        size = math.prod(shape)
        values = draw(st.lists(numbers, min_size=size, max_size=size))
        return np.reshape(np.array(values, "float64"), shape)

    scales = st.floats(-4.0, 4.0).map(lambda x: 10.0**x)
    scale_shape = draw(st.sampled_from([shape, shape[1:], shape[2:], [1]]))
    return (
        array(shape[1:], numbers),
        array(shape, numbers),
        array(scale_shape, scales),
    )


@budget.cases(15)
@hypothesis.given(_classes())
def test_metrics_of_classes_are_in_their_ranges(drawn):
    labels, logits = drawn
    probs = np.asarray(keras.ops.softmax(logits))
    num_draws, _, num_classes = probs.shape
    for name, high in (
        ("accuracy", 1.0),
        ("area_under_risk_coverage", 1.0),
        ("brier_score", 2.0),
        ("expected_calibration_error", 1.0),
        ("maximum_calibration_error", 1.0),
        ("negative_log_likelihood", math.inf),
    ):
        metric = getattr(metrics, name)
        found = metric(labels, probs)
        assert -_ROUNDING <= found <= high + _ROUNDING, name
        one_hot = np.eye(num_classes)[labels]
        assert metric(one_hot, probs) == found, name
        repeated = metric(labels, np.concatenate([probs, probs]))
        np.testing.assert_allclose(repeated, found, rtol=1e-7, atol=1e-12)
        if name == "negative_log_likelihood":
            of_logits = metric(labels, logits, from_logits=True)
            assert math.isfinite(of_logits)
            np.testing.assert_allclose(of_logits, found, rtol=1e-6, atol=1e-9)
    total = metrics.predictive_entropy(probs)
    expected = metrics.expected_entropy(probs)
    information = metrics.mutual_information(probs)
    assert np.all(total <= math.log(num_classes) + _ROUNDING)
    assert np.all(expected >= -_ROUNDING)
    limit = math.log(min(num_classes, num_draws))
    assert np.all((information >= 0.0) & (information <= limit + _ROUNDING))
    np.testing.assert_allclose(information, total - expected, atol=_ROUNDING)
    confidence = metrics.confidence(logits, from_logits=True)
    assert np.all(confidence >= 1.0 / num_classes - _ROUNDING)
    assert np.all(confidence <= 1.0)


@budget.cases(10)
@hypothesis.given(_classes(extreme=20.0), st.booleans())
def test_streaming_metrics_are_those_of_all_examples(drawn, from_logits):
    labels, logits = drawn
    predictions = logits[0]
    if not from_logits:
        predictions = np.asarray(keras.ops.softmax(predictions))
    for streaming, metric in (
        (metrics.BrierScore, metrics.brier_score),
        (metrics.ExpectedCalibrationError, metrics.expected_calibration_error),
        (metrics.NegativeLogLikelihood, metrics.negative_log_likelihood),
    ):
        whole = streaming(from_logits=from_logits, dtype="float64")
        for begin in range(0, len(labels), 2):
            rows = slice(begin, begin + 2)
            whole.update_state(labels[rows], predictions[rows])
        expected = metric(labels, predictions, from_logits=from_logits)
        np.testing.assert_allclose(
            float(whole.result()), expected, rtol=1e-5, atol=1e-6
        )


@budget.cases(15)
@hypothesis.given(_gaussians())
def test_metrics_of_regressions_are_in_their_ranges(drawn):
    y, loc, scale = drawn
    cdf = metrics.predictive_cdf(y, loc, scale)
    assert np.all((cdf >= 0.0) & (cdf <= 1.0 + _ROUNDING))
    for level in (0.1, 0.9):
        assert 0.0 <= metrics.interval_coverage(y, loc, scale, level) <= 1.0
    assert 0.0 <= metrics.regression_calibration_error(y, loc, scale) <= 1.0
    crps = metrics.crps(y, loc, scale)
    largest = max(np.max(np.abs(loc)), np.max(np.abs(y)), np.max(scale))
    assert -1e-12 * largest <= crps <= 4.0 * largest
    assert metrics.crps(y, loc) >= -1e-12 * largest
    variance = metrics.predictive_variance(loc, scale)
    np.testing.assert_allclose(
        variance.total, variance.aleatoric + variance.epistemic, rtol=1e-9
    )
    assert np.all(variance.epistemic >= 0.0)
    for metric in (
        metrics.gaussian_negative_log_likelihood,
        metrics.moment_matched_negative_log_likelihood,
    ):
        found = metric(y, loc, scale)
        assert math.isfinite(found)
        np.testing.assert_allclose(
            metric(y, loc[::-1], scale if scale.ndim < 3 else scale[::-1]),
            found,
            rtol=1e-6,
        )
    rmse = metrics.root_mean_squared_error(y, loc)
    np.testing.assert_allclose(
        rmse, np.sqrt(np.mean((loc.mean(0) - y) ** 2)), rtol=1e-9, atol=1e-300
    )


_SCORES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6)


@budget.cases(15)
@hypothesis.given(_SCORES, _SCORES)
def test_detection_of_other_data_is_symmetric(one, other):
    one, other = np.array(one), np.array(other)
    auroc = metrics.auroc(one, other)
    np.testing.assert_allclose(metrics.auroc(other, one), 1.0 - auroc)
    wins = np.mean(
        (one[:, np.newaxis] > other) + 0.5 * (one[:, np.newaxis] == other)
    )
    np.testing.assert_allclose(auroc, wins, atol=1e-12)
    assert 0.0 <= metrics.fpr_at_95_tpr(one, other) <= 1.0


@budget.cases(10)
@hypothesis.given(
    st.integers(2, 5), st.integers(1, 5), st.integers(1, 3), st.integers(0, 99)
)
def test_a_discrepancy_of_samples_is_in_its_range(num, other, size, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(num, size)), rng.normal(size=(other, size))
    assert metrics.mmd(x, x) < 1e-12
    assert 0.0 <= metrics.mmd(x, y) <= 2.0
    if other > 1:  # of which a reference can be made
        swapped = metrics.mmd(y, x, 1.5)
        np.testing.assert_allclose(metrics.mmd(x, y, 1.5), swapped, atol=1e-12)


_OF_CLASSES = (np.array([0, 1]), np.array([[0.2, 0.8], [0.5, 0.5]]))
_OF_GAUSSIANS = (np.zeros((2, 1)), np.zeros((3, 2, 1)), np.ones((3, 2, 1)))
_VALID = {
    "accuracy": _OF_CLASSES,
    "area_under_risk_coverage": _OF_CLASSES,
    "auroc": (np.arange(3.0), np.arange(2.0)),
    "brier_score": _OF_CLASSES,
    "calibration_bins": _OF_CLASSES,
    "confidence": _OF_CLASSES[1:],
    "crps": _OF_GAUSSIANS,
    "expected_calibration_error": _OF_CLASSES,
    "expected_entropy": (_OF_CLASSES[1][np.newaxis],),
    "fpr_at_95_tpr": (np.arange(3.0), np.arange(2.0)),
    "gaussian_negative_log_likelihood": _OF_GAUSSIANS,
    "interval_coverage": (*_OF_GAUSSIANS, 0.9),
    "maximum_calibration_error": (*_OF_CLASSES, 5),
    "mmd": (np.ones((3, 2)) * [[1], [2], [3]], np.ones((2, 2)), 1.0),
    "moment_matched_negative_log_likelihood": _OF_GAUSSIANS,
    "mutual_information": (_OF_CLASSES[1][np.newaxis],),
    "negative_log_likelihood": _OF_CLASSES,
    "predictive_cdf": _OF_GAUSSIANS,
    "predictive_entropy": _OF_CLASSES[1:],
    "predictive_variance": _OF_GAUSSIANS[1:],
    "regression_calibration_error": (*_OF_GAUSSIANS, np.array([0.5])),
    "root_mean_squared_error": _OF_GAUSSIANS[:2],
}


def test_every_function_is_tried():
    functions = {n for n in metrics.__all__ if n == n.lower()}
    assert set(_VALID) == functions


_ARRAYS = st.one_of(
    st.builds(
        np.full,
        st.lists(st.integers(0, 3), max_size=4).map(tuple),
        st.sampled_from([0.0, 0.5, 1.0, -1.0, 3.0, math.nan, math.inf]),
    ),
    junk.ANYTHING,
    st.sampled_from([[[1.0], [1.0, 2.0]], np.array([1j]), [None, 1.0]]),
)


_ENTRIES = st.sampled_from([math.nan, math.inf, -math.inf, -1.0, 2.0, 1e100])


@dataclasses.dataclass
class Entry:
    """Stands for the valid array, with another number as its first one."""

    number: float


@budget.cases(250)
@hypothesis.given(
    st.sampled_from(sorted(_VALID)),
    st.integers(0, 3),
    st.one_of(_ARRAYS, _ENTRIES.map(Entry)),
)
def test_arguments_of_metrics_are_refused_or_give_numbers(name, index, value):
    given = list(_VALID[name])
    index %= len(given)
    if isinstance(value, Entry):
        array = np.array(given[index], "float64")
        array.flat[0] = value.number
        value = array
    given[index] = value
    try:
        found = getattr(metrics, name)(*given)
    except ValueError as error:
        message = str(error)
        assert "`" in message  # it names an argument
        return
    if name != "calibration_bins":  # of which empty ones are NaN
        assert np.all(np.isfinite(found)) or (
            name == "negative_log_likelihood" and found == math.inf
        )
